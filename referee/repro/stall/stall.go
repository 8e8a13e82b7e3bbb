// Package stall is a way to a server that can fall silent.
package stall

import (
	"log"
	"net"
	"sync/atomic"
	"time"
)

// Before forwards connections to a server for as long as silent is false. It returns the address to connect to.
func Before(server string) (addr string, silent *atomic.Bool) {
	silent = new(atomic.Bool)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Check(err)
	forward := func(to, from net.Conn) {
		for buffer := make([]byte, 1<<16); ; {
			n, err := from.Read(buffer)
			for silent.Load() {
				time.Sleep(time.Millisecond)
			}
			if err == nil {
				_, err = to.Write(buffer[:n])
			}
			if err != nil {
				_ = to.Close()
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			Check(err)
			behind, err := net.Dial("tcp", server)
			Check(err)
			go forward(client, behind)
			go forward(behind, client)
		}
	}()
	return l.Addr().String(), silent
}

// Check ends the program if there is an error.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
