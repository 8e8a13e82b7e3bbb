// Looks at a report in a window and returns what is wrong with it, a line each. All runs are opened first.
(window) => {
  const {document, innerWidth} = window, getComputedStyle = (e) => window.getComputedStyle(e);
  const wrong = [];
  const say = (what) => { if (wrong.length < 40 && !wrong.includes(what)) wrong.push(what); };
  const shown = (e) => e.checkVisibility() && e.getClientRects().length > 0;
  const about = (e) => `${e.tagName} "${(e.textContent || "").trim().slice(0, 40)}"`;
  document.querySelectorAll("details").forEach((d) => { d.open = true; });

  if (document.documentElement.scrollWidth > innerWidth) say(`the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);
  for (const e of document.querySelectorAll("main *")) {
    if (!shown(e) || e.closest("svg, .scroll, thead")) continue;
    const r = e.getBoundingClientRect();
    if (r.right > innerWidth + 0.5 || r.left < -0.5) say(`${about(e)} reaches out of the window: ${r.left} to ${r.right}`);
  }

  // Drawings: each text within its drawing, and on no other.
  let drawings = 0;
  for (const svg of document.querySelectorAll("svg.drawing")) {
    if (!shown(svg)) continue;
    drawings++;
    const area = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((e) => ({ text: e.textContent, box: e.getBoundingClientRect() }));
    texts.forEach((a, i) => {
      const b = a.box;
      if (b.left < area.left - 0.5 || b.right > area.right + 0.5 || b.top < area.top - 0.5 || b.bottom > area.bottom + 0.5)
        say(`in "${svg.parentElement.getAttribute("aria-label").slice(0, 60)}", "${a.text}" reaches out`);
      for (const o of texts.slice(i + 1)) {
        if (b.left < o.box.right - 0.5 && o.box.left < b.right - 0.5 && b.top < o.box.bottom - 0.5 && o.box.top < b.bottom - 0.5)
          say(`in "${svg.parentElement.getAttribute("aria-label").slice(0, 60)}", "${a.text}" and "${o.text}" cover each other`);
      }
    });
    if (parseFloat(getComputedStyle(svg.querySelector("text") || svg).fontSize) * area.width / svg.viewBox.baseVal.width < 9)
      say(`the text in "${svg.parentElement.getAttribute("aria-label").slice(0, 60)}" is too small to read`);
  }
  if (document.querySelector("#matrix") && drawings === 0) say("there are no drawings");

  // Contrast of texts with what is behind them (WCAG 2.2, 1.4.3).
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  for (const e of document.querySelectorAll("main *")) {
    if (e.closest("svg") || !shown(e) || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const ratio = contrast(parse(getComputedStyle(e).color), behind(e));
    if (ratio < 4.5) say(`${about(e)} has a contrast of ${ratio.toFixed(2)}`);
  }
  const probe = document.createElement("i");
  document.body.append(probe);
  const named = (name) => { probe.style.color = `var(--${name})`; return parse(getComputedStyle(probe).color); };
  for (const [text, back] of [["on-hold", "hold"], ["ink", "paper"], ["soft", "paper"], ["danger", "paper"], ["fault", "paper"], ["paper", "ink"], ["paper", "fault"]]) {
    const ratio = contrast(named(text), named(back));
    if (ratio < 4.5) say(`--${text} on --${back} has a contrast of ${ratio.toFixed(2)}`);
  }
  probe.remove();
  return wrong;
}
