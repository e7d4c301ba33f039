/* The rules of axe-core that pages of perfpy broke: what breaks them in the page, as [rule, element]. */
(() => {
  const seen = e => e.checkVisibility() && !e.closest('[aria-hidden=true]'), all = s => [...document.querySelectorAll(s)].filter(seen), found = [];
  const focusable = 'button:not(:disabled), select, input, a[href], [tabindex]:not([tabindex="-1"])';
  for (const e of all('*')) {
    const style = getComputedStyle(e), scrolls = /auto|scroll/.test(style.overflowX + style.overflowY)
      && (e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1);
    if (scrolls && e.clientHeight > 1 && e.tabIndex < 0 && !e.querySelector(focusable)) found.push(['scrollable-region-focusable', e.outerHTML.slice(0, 80)]);
    if (e.getAttribute('aria-controls') && !document.getElementById(e.getAttribute('aria-controls'))) found.push(['aria-controls', e.id]);
  }
  const children = {list: ['listitem'], radiogroup: ['radio'], tablist: ['tab'], treegrid: ['row', 'rowgroup']}, of = e => e.getAttribute('role')
    || {LI: 'listitem', TR: 'row', TBODY: 'rowgroup', THEAD: 'rowgroup'}[e.tagName] || '';
  for (const [role, kinds] of Object.entries(children)) for (const e of all(`[role=${role}]`))
    for (const child of e.children) if (seen(child) && !kinds.includes(of(child))) found.push(['aria-required-children', role, child.outerHTML.slice(0, 80)]);
  const landmarks = 'header, main, aside, footer, nav, section[aria-label], dialog, [role=region], [role=tabpanel]';
  for (const e of document.body.children)
    if (seen(e) && e.textContent.trim() && !/SCRIPT|NOSCRIPT/.test(e.tagName) && !e.matches(landmarks)) found.push(['region', e.outerHTML.slice(0, 80)]);
  let level = 0;
  for (const e of all('h1, h2, h3, h4')) { const n = Number(e.tagName[1]); if (n > level + 1) found.push(['heading-order', e.textContent]); level = n; }
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) found.push(['duplicate-id', id]);
  const targets = all('button, select, input').filter(e => !e.closest('.unseen')).map(e => [e, e.getBoundingClientRect()]).filter(([, r]) => r.width);
  for (const [e, r] of targets) if (r.width < 24 || r.height < 23.9) for (const [o, q] of targets) {
    const x = Math.max(q.left - (r.left + r.right) / 2, (r.left + r.right) / 2 - q.right, 0), y = Math.max(q.top - (r.top + r.bottom) / 2, (r.top + r.bottom) / 2 - q.bottom, 0);
    if (o !== e && Math.hypot(x, y) < 12) { found.push(['target-size', e.outerHTML.slice(0, 80)]); break; }
  }
  return found; })()
