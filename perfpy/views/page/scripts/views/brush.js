/* A brush over a canvas on which time runs from left to right, for mouse, finger and keys. */

export const ordered = (a, b) => a < b ? [a, b] : [b, a];

/* told: {shown() -> range, selected() -> range or null, select(range or null, moving)} */
export function brush(canvas, told) {
  let begin = null;
  const timeAt = event => {
    const r = canvas.getBoundingClientRect(), [from, to] = told.shown();
    return from + (to - from) * Math.max(0, Math.min(1, (event.clientX - r.left) / r.width));
  };
  canvas.addEventListener("pointerdown", event => {
    begin = timeAt(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => { if (begin !== null) told.select(ordered(begin, timeAt(event)), true); });
  canvas.addEventListener("pointerup", event => {
    if (begin === null) return;
    const range = ordered(begin, timeAt(event)), [from, to] = told.shown();
    begin = null;
    /* a click without a way clears */
    told.select(range[1] - range[0] < (to - from) / 500 ? null : range, false);
  });
  canvas.addEventListener("pointercancel", () => { begin = null; });
  canvas.addEventListener("keydown", event => {
    const range = keyed(event, told.selected(), told.shown());
    if (range === undefined) return;
    told.select(range, false);
    event.preventDefault();
    event.stopPropagation();
  });
}

/* The range that a key makes of a selection, null for all; undefined for other keys. */
export function keyed(event, range, shown) {
  const [from, to] = shown, step = (to - from) / 50;
  if (event.key === "Escape") return range ? null : undefined;
  const way = { ArrowLeft: -step, ArrowRight: step }[event.key];
  if (way === undefined) return undefined;
  if (!range) return way > 0 ? [from, from + (to - from) / 10] : [to - (to - from) / 10, to];
  const next = event.shiftKey ? [range[0], Math.max(range[0] + step, range[1] + way)] : [range[0] + way, range[1] + way];
  return next[0] < from || next[1] > to ? range : next;
}
