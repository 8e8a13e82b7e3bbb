package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// module is the path of the root module.
const module = "github.com/lockport/lockport"

// tree is the source of the module.
type tree struct {
	fsys  fs.FS
	files []*source // without nested modules

	pages, code []text // Markdown; Go and scripts; both with nested modules
}

type text struct{ file, text string }

// source is one Go file.
type source struct {
	dir     string // the package's folder below the root: "backend/redis"; "." is the root
	name    string // "redis_test.go"
	test    bool
	syntax  *ast.File
	set     *token.FileSet
	imports []reference
}

// reference is one import of a file.
type reference struct {
	pos   token.Pos
	path  string // as written
	local string // what the file calls it
	ours  bool
	dir   string // if ours: "driver"; "." is the root
}

// standard reports whether the package is in the standard library.
func (r reference) standard() bool {
	first, _, _ := strings.Cut(r.path, "/")
	return !strings.Contains(first, ".")
}

// under reports whether the package is one of ours in dir or below it.
func (r reference) under(dir string) bool { return r.ours && under(r.dir, dir) }

func under(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

// readTree reads the files below the root of fsys, and parses every Go file of the module, for every system. It skips the folders that the go
// command ignores.
func readTree(fsys fs.FS) (*tree, error) {
	t := &tree{fsys: fsys}
	nested := "none" // the latest folder of another module
	err := fs.WalkDir(fsys, ".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case file != "." && (name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_'):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			if file != "." && t.has(file, "go.mod") {
				nested = file
			}
			return nil
		case !slices.Contains([]string{".md", ".go", ".sh"}, path.Ext(file)):
			return nil
		}
		content, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		if path.Ext(file) == ".md" {
			t.pages = append(t.pages, text{file, string(content)})
			return nil
		}
		t.code = append(t.code, text{file, string(content)})
		if path.Ext(file) != ".go" || under(file, nested) {
			return nil
		}
		s, err := parse(file, content)
		t.files = append(t.files, s)
		return err
	})
	return t, err
}

func parse(file string, content []byte) (s *source, err error) {
	s = &source{dir: path.Dir(file), name: path.Base(file), test: strings.HasSuffix(file, "_test.go"), set: token.NewFileSet()}
	if s.syntax, err = parser.ParseFile(s.set, file, content, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	for _, spec := range s.syntax.Imports {
		r := reference{pos: spec.Pos()}
		if r.path, err = strconv.Unquote(spec.Path.Value); err != nil {
			return nil, err
		}
		r.local = path.Base(r.path)
		if spec.Name != nil {
			r.local = spec.Name.Name
		}
		if r.path == module {
			r.ours, r.dir = true, "."
		} else if dir, ok := strings.CutPrefix(r.path, module+"/"); ok {
			r.ours, r.dir = true, dir
		}
		s.imports = append(s.imports, r)
	}
	return s, nil
}

// at formats a position in the file.
func (s *source) at(pos token.Pos) string {
	p := s.set.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// use is a reference to an exported identifier of another package.
type use struct {
	pos        token.Pos
	pkg, ident string // "os", "Exit"
	function   string // the enclosing function or method, "" at top level
	result     bool   // it is the type of a function's result
}

// uses returns the references to other packages' exported identifiers.
func (s *source) uses() []use {
	paths := make(map[string]string)
	for _, r := range s.imports {
		paths[r.local] = r.path
	}
	var all []use
	for _, decl := range s.syntax.Decls {
		function := ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		results := make(map[ast.Node]bool)
		ast.Inspect(decl, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncType); ok && f.Results != nil {
				for _, r := range f.Results.List {
					results[r.Type] = true
				}
			}
			if selector, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := selector.X.(*ast.Ident); ok && paths[x.Name] != "" {
					all = append(all, use{n.Pos(), paths[x.Name], selector.Sel.Name, function, results[n]})
				}
			}
			return true
		})
	}
	return all
}

// has reports whether dir has a file of that name.
func (t *tree) has(dir, name string) bool {
	_, err := fs.Stat(t.fsys, path.Join(dir, name))
	return err == nil
}

// backends returns the names of the folders in backend/, except all.
func (t *tree) backends() (names []string) {
	for _, s := range t.files {
		if name := backendOf(s.dir); isBackend(s) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// backendOf returns the backend of the package in dir, "all" included, or "".
func backendOf(dir string) string { return below("backend", dir) }

// fenceOf returns "sqlfence" for fence/sqlfence and folders below it.
func fenceOf(dir string) string { return below("fence", dir) }

// below returns "x" for top/x and folders below it.
func below(top, dir string) string {
	rest, _ := strings.CutPrefix(dir, top+"/")
	if rest == dir {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}
