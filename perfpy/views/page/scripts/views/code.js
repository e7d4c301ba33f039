/* The code of hot files and functions: lines of source with their instructions, and the shares of the selected samples. */

import { counted, percent } from "../model/words.js";
import { button, el, inks, prepared } from "./elements.js";

/* of the hottest line: what is called hot, and where a step forward or back stops */
const HOT = 0.05, STRIP = 14, AROUND = 2, LINES = 4;
/* how many files that are not here are named, and how much more a function has with libraries for a column of it */
const MISSING = 3, MATTERS = 0.005;
/* mnemonic, register, number, name, comment */
const WORDS = /^\s*([a-z][\w.]*)|(%\w+)|([$#]?-?\b0x[\da-f]+\b|[$#]-?\d+)|(<[^>]*>)|((?:\/\/|#\s).*)/g, KINDS = ["k", "t", "n", "f", "c"];

/* The words of a line with their kinds, such as "k3.1f4": [[text, kind, "" for none]]. */
export function wordsOf(text, kinds) {
  const words = [];
  let place = 0;
  for (const [, kind, length] of kinds.matchAll(/([a-z.])(\d+)/g)) {
    words.push([text.slice(place, place + Number(length)), kind === "." ? "" : kind]);
    place += Number(length);
  }
  if (place < text.length) words.push([text.slice(place), ""]);
  return words;
}

/* The words of an instruction, in the same form. */
export function wordsOfInstruction(text) {
  const words = [];
  let place = 0;
  for (const match of text.matchAll(WORDS)) {
    if (match.index > place) words.push([text.slice(place, match.index), ""]);
    words.push([match[0], KINDS[match.slice(1).findIndex(one => one !== undefined)]]);
    place = match.index + match[0].length;
  }
  if (place < text.length) words.push([text.slice(place), ""]);
  return words;
}

/* Words as they are shown, without characters at the beginning. */
export function tinted(words, without = 0) {
  let rest = without;
  return words.map(([text, kind]) => {
    const kept = text.slice(rest);
    rest = Math.max(0, rest - text.length);
    return kind ? el(`span.word-${kind}`, { textContent: kept }) : kept;
  });
}

const cell = (text, kind) => el(`td.${kind}`, { textContent: text });
const row = (...cells) => el("tr", {}, ...cells);
const shown = share => share ? percent(share) : "";
const code = (words, ...more) => el("td.text", {}, ...tinted(words), ...more);

/* The shares of a function's instructions, lines and files among weights by site: {byNumber, byLine(source, line), of source}. */
export function sharesOf(one, weights) {
  const total = one.spots.reduce((sum, [, , , site]) => sum + weights[site], 0), byNumber = new Map(), byLine = new Map(), bySource = new Map();
  const add = (to, key, weight) => to.set(key, (to.get(key) || 0) + (total ? weight / total : 0));
  for (const [number, source, line, site] of one.spots) {
    add(byNumber, number, weights[site]);
    if (source < 0) continue;
    add(byLine, `${source} ${line}`, weights[site]);
    add(bySource, source, weights[site]);
  }
  return { total, byNumber, byLine, bySource };
}

/* The shares of a file's lines in all weight, from weights by site: own and with inlined code, by line; and of the whole file. */
export function fileShares(one, weights, all) {
  const own = new Map(), inlined = new Map(), inFile = new Set(), add = (to, key, weight) => to.set(key, (to.get(key) || 0) + (all ? weight / all : 0));
  let share = 0, ownShare = 0;
  for (const [line, site, isOwn] of one.spots) {
    add(inlined, line, weights[site]);
    if (isOwn) { add(own, line, weights[site]); ownShare += all ? weights[site] / all : 0; }
    if (!inFile.has(site)) share += all ? weights[site] / all : 0;
    inFile.add(site);
  }
  return { own, inlined, share, ownShare };
}

/* The places of hot rows, from the shares of all rows: those that matter beside the hottest one. */
export function hotPlaces(shares) {
  const most = shares.reduce((a, b) => Math.max(a, b), 0);
  return shares.flatMap((share, place) => most && share >= HOT * most ? [place] : []);
}

/* Why a function is shown without source. Instructions may have lines of files that are not here. */
export function sourceNote({ module, sources, instructions, interpreted }) {
  if (sources.length) return "";
  if (interpreted && /^<.*>$/.test(module)) {
    const what = module === "<string>" ? "the text of python -c or exec()" : "no file's name";
    return `. Python runs it without instructions of its own, and its source is in no file: ${module} is ${what}`;
  }
  const files = interpreted ? [module] : [...new Set(instructions.map(([, , , , place]) => place.replace(/:\d+$/, "")))].filter(Boolean), more = files.length - MISSING;
  return files.length ? `. Source not found here, or not called as source files are: ${files.slice(0, MISSING).join(", ")}${more > 0 ? ` and ${counted(more, "more file")}` : ""}`
    : ". No lines of source are known: the file has no debug information";
}

export class CodeView {
  /* parts: {choice, kind, about, table, box, strip, hottest, before, after}; told: {changed(part of the state)};
     named: the functions of the headline, those of its first sentence first: [[as shown, name, share]] */
  constructor(parts, functions, files, told, named = []) {
    Object.assign(this, parts, { code: functions, files, told, weights: null, whole: 0, event: "", inside: null, lacking: "", rows: [], open: new Set() });
    this.isEmpty = !functions.length && !files.length;
    const group = (label, options) => { if (options.length) this.choice.append(el("optgroup", { label }, ...options)); };
    const events = new Set([...files, ...functions].map(one => one.event));
    const more = one => one.share || !one.chargedShare ? "" : ` (${percent(one.chargedShare)} with libraries)`;
    const option = (one, value) => new Option(`${percent(one.share)}${more(one)} ${one.short || one.name}${events.size > 1 ? ` (${one.event})` : ""}`, value);
    group("Functions", functions.map((one, i) => option(one, `function ${i}`)));
    group("Source files", files.map((one, i) => option(one, `file ${i}`)));
    /* what the headline names comes first, then source that can be read: of the hottest function that has it, then of a file */
    const place = ([, name]) => functions.findIndex(one => one.name === name && (one.sources.length || !one.interpreted && one.instructions.length));
    const hottest = named.findIndex(one => place(one) >= 0);
    this.missing = named.length && hottest !== 0 ? named[0][0] : "";
    const readable = functions.findIndex(one => one.sources.length), text = files.findIndex(one => one.lines.some(line => line[2]));
    if (hottest >= 0) this.choice.value = `function ${place(named[hottest])}`;
    else if (readable > 0) this.choice.value = `function ${readable}`;
    else if (readable < 0 && text >= 0) this.choice.value = `file ${text}`;
    this.first = this.choice.value;
    this.choice.onchange = this.kind.onchange = () => {
      Object.assign(this, { inside: null, lacking: "" });
      this.draw();
      this.told.changed({ code: this.choice.value, codeKind: this.kind.value });
    };
    this.choice.disabled = this.isEmpty;
    this.hottest.onclick = () => this.go(0);
    this.before.onclick = () => this.go(-1);
    this.after.onclick = () => this.go(1);
    this.box.onscroll = () => this.drawStrip();
    new ResizeObserver(() => { if (!this.isPlaced) this.go(0, false); else if (this.box.scrollTop === this.placed) this.place(); this.drawStrip(); }).observe(this.box);
    this.strip.onclick = event => { this.box.scrollTop = event.offsetY / this.strip.clientHeight * this.box.scrollHeight - this.box.clientHeight / 2; };
  }

  /* The number of a function, or of the hottest one that it is inlined into; -1 for none. */
  numberOf(name, module) {
    const own = this.code.findIndex(one => one.name === name && one.module === module);
    return own >= 0 ? own : this.code.findIndex(one => one.module === module && one.calls.some(chain => chain.some(([inlined]) => inlined === name)));
  }

  /* The lines of a function that have code of another one, which is inlined there, as "source line"; null for none. */
  linesOf(one, inlined) {
    const places = one.instructions.filter(([, , , , , source, , call]) => source >= 0 && call >= 0 && one.calls[call].some(([name]) => name === inlined));
    return one.name !== inlined && places.length ? new Set(places.map(([, , , , , source, line]) => `${source} ${line}`)) : null;
  }

  /* The hottest lines of a function, or its lines in one that it is inlined into, with those around them: {of: name of the latter, isCharged:
     whether shares are of the samples that are charged to the function, lines: [line, share, text, kinds], or null for a gap}; null if its
     code is not here. */
  snippet(name, module) {
    const one = this.code[this.numberOf(name, module)];
    if (!one || !one.sources.length) return null;
    const shares = this.follows(one) ? sharesOf(one, this.weights) : null, inside = this.linesOf(one, name);
    const charged = one.name === name ? this.chargedOf(one) : null, isCharged = !!charged;
    const share = (source, [line, whole]) => charged ? charged.get(`${source} ${line}`) || 0
      : inside && !inside.has(`${source} ${line}`) ? 0 : shares ? shares.byLine.get(`${source} ${line}`) || 0 : whole;
    const most = one.sources.map((source, i) => Math.max(0, ...source.lines.map(line => share(i, line)))), place = most.indexOf(Math.max(...most));
    const lines = one.sources[place].lines.map(line => [line[0], share(place, line), line[2], line[3]]);
    const hot = lines.map(([, part], i) => [part, i]).filter(([part]) => part).sort((a, b) => b[0] - a[0]).slice(0, LINES).map(([, i]) => i);
    const near = lines.flatMap((line, i) => hot.some(at => at === i || at === hot[0] && Math.abs(at - i) <= AROUND) ? [line] : []);
    return { of: one.name === name ? "" : one.name, isCharged, lines: near.flatMap((line, i) => i && line[0] > near[i - 1][0] + 1 ? [null, line] : [line]) };
  }

  /* The shares of the lines in the samples that are charged to a function, by "source line"; null if these are unknown, as for a selected range. */
  chargedOf(one) {
    if (this.weights || one.event !== this.event || !(one.charged || []).length) return null;
    return new Map(one.charged.map(([source, line, part]) => [`${source} ${line}`, part]));
  }

  /* Show the code of a function, or say that it is not here. */
  show(name, module) {
    const i = this.numberOf(name, module);
    this.lacking = i < 0 ? name : "";
    if (i < 0) { if (!this.isEmpty) this.draw(); return; }
    this.choice.value = `function ${i}`;
    this.isPlaced = false;
    this.inside = this.linesOf(this.code[i], name);
    this.draw();
  }

  /* Show what a state names, as far as it exists. */
  restore({ code: choice, codeKind }) {
    this.kind.value = codeKind;
    this.choice.value = [...this.choice.options].some(option => option.value === choice) ? choice : this.first;
  }

  /* weights: of the selected samples of an event by site, null for those of the whole recording; whole: of all of them. */
  load(weights, whole, event) {
    Object.assign(this, { weights, whole, event });
    this.draw();
  }

  /* Whether the selected samples of the code's event are known by site. */
  follows(one) { return !!(this.weights && one.spots.length && one.event === this.event); }

  draw() {
    if (this.isEmpty) {
      this.about.textContent = "The page has no code: it was made with --no-source, or no function has lines or instructions here.";
      for (const one of [this.kind, this.choice]) one.parentElement.hidden = true;
      for (const one of [this.hottest, this.before, this.after]) one.hidden = true;
      return;
    }
    const [kind, number] = this.choice.value.split(" ");
    this.kind.parentElement.hidden = kind === "file" || !this.code[number].sources.length || !this.code[number].instructions.length;
    const { titles, rows } = kind === "file" ? this.ofFile(this.files[number]) : this.ofFunction(this.code[number]);
    if (this.drawn !== this.choice.value) { this.open.clear(); this.cursor = -1; this.isPlaced = false; }
    this.drawn = this.choice.value;
    this.table.tHead.replaceChildren(row(...titles.map(([title, style]) => el(`th.${style}`, { scope: "col", textContent: title }))));
    this.table.tBodies[0].replaceChildren(...rows.map(([line]) => line));
    this.rows = rows;
    this.hot = hotPlaces(rows.map(([, share]) => share));
    this.hottest.disabled = this.before.disabled = this.after.disabled = !this.hot.length;
    if (!this.isPlaced) this.go(0, false);
    this.mark();
    this.drawStrip();
  }

  /* Rows are [element, share, 0 where the row is not to be jumped to]. */
  ofFile(one) {
    const found = this.follows(one) ? fileShares(one, this.weights, this.whole) : null, of = found ? "the selected samples" : "the whole recording";
    /* calls are in whole stacks, not in sites */
    const calls = one.calls && !found;
    this.about.textContent = `${one.event}: ${percent(found ? found.share : one.share)} of ${of}, ${percent(found ? found.ownShare : one.own)} without `
      + (calls ? "calls" : "inlined code")
      + (one.lines.some(([, , text]) => text) ? "" : ". The file is not here, or not called as source files are") + this.instead();
    const rows = [];
    let before = null;
    for (const [number, ownOfAll, text, wholeOfAll, kinds] of one.lines) {
      if (before !== null && number > before + 1) rows.push(this.gap(4));
      before = number;
      const own = found ? found.own.get(number) || 0 : ownOfAll, whole = found ? found.inlined.get(number) || 0 : wholeOfAll;
      rows.push([this.heated(whole, row(cell(shown(own), "share"), cell(shown(whole), "share"), cell(number, "line"), code(wordsOf(text, kinds)))), own || whole / 100]);
    }
    return { titles: [[calls ? "Self" : "Own", "share"], [calls ? "Total" : "+ inlined", "share"], ["Line", "line"], ["Source", "text"]], rows };
  }

  ofFunction(one) {
    const shares = this.follows(one) ? sharesOf(one, this.weights) : null, hasBoth = one.sources.length && one.instructions.length;
    const kind = one.interpreted || one.sources.length && !hasBoth ? "source" : hasBoth ? this.kind.value : "instructions";
    const of = shares ? `${percent(this.whole ? shares.total / this.whole : 0)} of the selected samples` : `${percent(one.share)} of the whole recording`;
    const charged = kind !== "instructions" && one.chargedShare > one.share + MATTERS ? this.chargedOf(one) : null, more = charged ? [["+ libraries", "share"]] : [];
    const what = one.interpreted ? "without what it calls" : one.calls.length ? "with the code inlined into it" : "";
    const libraries = charged ? `${percent(one.chargedShare)} with libraries` : "";
    const below = one.interpreted && !one.sources.length ? "" : `; shares below are of ${charged ? "these" : "that"}`;
    this.about.textContent = `${one.module}, ${one.event}: ${[of, what, libraries].filter(Boolean).join(", ")}${below}`
      + `${sourceNote(one)}${this.instead()}`;
    return { titles: [["Share", "share"], ...more, [kind === "instructions" ? "Address" : "Line", "line"], [kind === "instructions" ? "Instruction" : "Source", "text"]],
      rows: kind === "instructions" ? this.instructionRows(one, one.instructions, shares, true) : this.sourceRows(one, shares, kind === "both", charged) };
  }

  /* Why this is not the code of the selected function, or of what the headline names first. */
  instead() {
    if (this.lacking) return `. No code is here of ${this.lacking}, which is selected`;
    return this.missing && this.choice.value === this.first ? `. No code is here of ${this.missing}, which the headline names first` : "";
  }

  /* Lines; those with instructions open, the hottest one is open at first. charged: shares by "source line" for a column of their own, or null. */
  sourceRows(one, shares, withInstructions, charged) {
    const rows = [], more = text => charged ? [cell(text, "share")] : [], share = (i, [number, whole]) => shares ? shares.byLine.get(`${i} ${number}`) || 0 : whole;
    const most = Math.max(0, ...one.sources.flatMap((source, i) => source.lines.map(line => share(i, line))));
    one.sources.forEach((source, i) => {
      const file = row(cell(percent(shares ? shares.bySource.get(i) || 0 : source.share), "share"), ...more(""), cell("", "line"), cell(source.path, "text"));
      file.className = "gap";
      rows.push([file, 0]);
      let before = null;
      for (const line of source.lines) {
        const [number, , text, kinds] = line, part = share(i, line);
        const below = withInstructions && part ? one.instructions.filter(([, , , , , of, at]) => of === i && at === number) : [];
        if (before !== null && number > before + 1) rows.push(this.gap(charged ? 4 : 3));
        before = number;
        const key = `${i} ${number}`, all = charged ? charged.get(key) || 0 : part;
        const isOpen = below.length > 0 && (part === most) !== this.open.has(key), name = this.inlinedAt(one, i, number);
        const opener = below.length ? [button(isOpen ? "\u25be" : "\u25b8", () => { if (!this.open.delete(key)) this.open.add(key); this.draw(); },
          { className: "opener", "aria-label": `instructions of line ${number}`, "aria-expanded": isOpen })] : [];
        const tags = name ? [el("span.inlined", { textContent: name })] : [];
        const cells = [cell(shown(part), "share"), ...more(shown(all)), el("td.line", {}, ...opener, String(number)), code(wordsOf(text, kinds), ...tags)];
        rows.push([this.heated(all, row(...cells)), all, key]);
        if (!isOpen) continue;
        for (const [element] of this.instructionRows(one, below, shares, false)) { if (charged) element.cells[0].after(cell("", "share")); rows.push([element, 0]); }
      }
    });
    return rows;
  }

  /* What is inlined at a line of the function: the names of the calls that lead there, if all its instructions have the same ones. */
  inlinedAt(one, source, line) {
    const calls = new Set(one.instructions.filter(([, , , , , of, at]) => of === source && at === line).map(instruction => instruction[7]));
    const [call] = calls;
    return calls.size === 1 && call >= 0 ? this.chain(one, call) : "";
  }

  chain(one, call) { return `inlined: ${one.calls[call].map(([name, where]) => `${name}${where ? ` at ${where}` : ""}`).join(" \u203a ")}`; }

  instructionRows(one, instructions, shares, alone) {
    const rows = [];
    let before = null, inside = -1;
    for (const [number, whole, address, text, where, , , call] of instructions) {
      const share = shares ? shares.byNumber.get(number) || 0 : whole;
      if (before !== null && number > before + 1) rows.push(this.gap(3));
      before = number;
      if (call !== inside && alone) {
        inside = call;
        const line = row(cell("", "share"), cell("", "line"), cell(call >= 0 ? this.chain(one, call) : `of ${one.name} itself`, "text"));
        line.className = "gap";
        rows.push([line, 0]);
      }
      const from = where && alone ? [el("span.inlined", { textContent: where })] : [];
      const line = row(cell(shown(share), "share"), cell(address, "line"), code(wordsOfInstruction(text), ...from));
      if (!alone) line.className = "instruction";
      rows.push([this.heated(share, line), share]);
    }
    return rows;
  }

  gap(columns) {
    const line = row(...Array.from({ length: columns }, (_, i) => cell(i === columns - 2 ? "\u22ee" : "", i === columns - 1 ? "text" : i === columns - 2 ? "line" : "share")));
    line.className = "gap";
    return [line, 0];
  }

  heated(share, line) {
    if (share) line.style.setProperty("--hot", `${Math.round(100 * Math.min(1, 0.12 + 1.1 * share))}%`);
    return line;
  }

  /* Go to the hottest row (0), of an inlined function that was chosen to its hottest one, or to the next or the previous hot one. */
  go(way, focuses = true) {
    if (!this.hot || !this.hot.length || !this.box.clientHeight) return;
    this.isPlaced = true;
    const own = this.inside ? this.rows.flatMap(([, share, key], place) => share && this.inside.has(key) ? [place] : []) : [], from = own.length ? own : this.hot;
    const hottest = from.reduce((best, place) => this.rows[place][1] > this.rows[best][1] ? place : best, from[0]);
    const next = way > 0 ? this.hot.find(place => place > this.cursor) ?? this.hot[0] : this.hot.findLast(place => place < this.cursor) ?? this.hot.at(-1);
    this.cursor = way ? next : hottest;
    this.place();
    this.mark();
    if (focuses) this.box.focus({ preventScroll: true });
  }

  /* Put the row in the middle; again when the box gets another height, until the reader scrolls. */
  place() {
    const line = this.rows[this.cursor]?.[0];
    if (!line) return;
    this.box.scrollTop = line.offsetTop - this.box.clientHeight / 2;
    this.placed = this.box.scrollTop;
  }

  mark() {
    this.rows.forEach(([line], place) => line.classList.toggle("here", place === this.cursor));
    this.after.title = this.before.title = `${this.hot.length} hot lines`;
  }

  /* Heat beside the scroll bar: where the hot rows are in the whole, and which part of it is in view. */
  drawStrip() {
    const height = this.box.clientHeight, whole = this.box.scrollHeight || 1;
    if (!height || !this.rows.length) return;
    const [pen] = prepared(this.strip, height, STRIP), ink = inks(), most = this.rows.reduce((a, [, share]) => Math.max(a, share), 0);
    pen.fillStyle = ink("--line");
    if (whole > height) pen.fillRect(0, this.box.scrollTop / whole * height, STRIP, height * height / whole);
    for (const [line, share] of this.rows) {
      if (!share || share < most / 200) continue;
      pen.fillStyle = `rgb(${ink("--heat")} / ${0.3 + 0.7 * share / most})`;
      pen.fillRect(2, line.offsetTop / whole * height, STRIP - 4, Math.max(3, line.offsetHeight / whole * height));
    }
  }

  text() { return [...this.table.rows].map(line => [...line.cells].map(one => one.textContent).join("\t")).join("\n") + "\n"; }
}
