// Follows every link within the page as a click would, and returns what is wrong, a line each.
(async () => {
  const wrong = [];
  document.querySelectorAll("details").forEach((d) => { d.open = false; });
  const links = [...document.querySelectorAll('a[href^="#"]')];
  if (links.length === 0) wrong.push("there are no links");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => wrong.push(`two elements have the id ${id}`));
  for (const a of links) {
    const target = document.getElementById(decodeURIComponent(a.getAttribute("href").slice(1)));
    if (!target) { wrong.push(`${a.getAttribute("href")} leads nowhere`); continue; }
    const run = target.closest("details");
    a.click();
    for (let i = 0; run && !run.open && i < 20; i++) await new Promise((done) => setTimeout(done, 10));
    if (run && !run.open) wrong.push(`${a.getAttribute("href")} does not open its run`);
    if (run) run.open = false;
  }
  return wrong;
})()
