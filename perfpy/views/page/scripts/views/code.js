/* The code of hot files and functions: lines of source and instructions, with the shares of the selected samples. */

import { percent } from "../model/words.js";
import { el } from "./elements.js";

const cell = (text, kind) => el(`td.${kind}`, { textContent: text });
const row = (...cells) => el("tr", {}, ...cells);

function head(table, titles) {
  table.tHead.replaceChildren(row(...titles.map(([title, kind]) => el(`th.${kind}`, { scope: "col", textContent: title }))));
}

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

export class CodeView {
  constructor(parts, code, files) {
    Object.assign(this, parts, { code, files, weights: null, whole: 0, event: "" });
    this.isEmpty = !code.length && !files.length;
    const group = (label, options) => { if (options.length) this.choice.append(el("optgroup", { label }, ...options)); };
    const events = new Set([...files, ...code].map(one => one.event));
    const option = (one, value) => new Option(`${percent(one.share)} ${one.name}${events.size > 1 ? ` (${one.event})` : ""}`, value);
    group("Source files", files.map((one, i) => option(one, `file ${i}`)));
    group("Functions", code.map((one, i) => option(one, `function ${i}`)));
    if (code.length && code[0].sources.length) this.choice.value = "function 0";
    this.choice.onchange = this.kind.onchange = () => this.draw();
    this.choice.disabled = this.isEmpty;
  }

  numberOf(name, module) { return this.code.findIndex(one => one.name === name && one.module === module); }

  /* The hottest lines of a function, [line, share, text], or null if its code is not here. */
  hottest(name, module) {
    const one = this.code[this.numberOf(name, module)];
    if (!one || !one.sources.length) return null;
    const shares = this.follows(one) ? sharesOf(one, this.weights) : null;
    const lines = one.sources.flatMap((source, i) => source.lines.map(([line, share, text]) => [line, shares ? shares.byLine.get(`${i} ${line}`) || 0 : share, text]));
    return lines.filter(([, share]) => share).sort((a, b) => b[1] - a[1]);
  }

  /* Show the code of a function, if it is here. */
  show(name, module) {
    const i = this.numberOf(name, module);
    if (i < 0) return;
    this.choice.value = `function ${i}`;
    this.kind.value = this.code[i].sources.length ? "source" : "instructions";
    this.draw();
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
      this.kind.parentElement.hidden = this.choice.parentElement.hidden = true;
      return;
    }
    const [kind, number] = this.choice.value.split(" ");
    this.kind.parentElement.hidden = kind === "file";
    if (kind === "file") this.drawFile(this.files[number]); else this.drawFunction(this.code[number]);
  }

  drawFile(one) {
    const found = this.follows(one) ? fileShares(one, this.weights, this.whole) : null, of = found ? "the selected samples" : "the whole recording";
    /* calls are in whole stacks, not in sites */
    const calls = one.calls && !found;
    this.about.textContent = `${one.event}: ${percent(found ? found.share : one.share)} of ${of}, ${percent(found ? found.ownShare : one.own)} without `
      + (calls ? "calls" : "inlined code")
      + (one.lines.some(([, , text]) => text) ? "" : ". The file is not here, or not called as source files are");
    head(this.table, [[calls ? "Self" : "Own", "number"], [calls ? "Total" : "+ inlined", "number"], ["Line", "number"], ["Source", "text"]]);
    let before = null;
    const rows = [], shown = share => share ? percent(share) : "";
    for (const [number, ownOfAll, text, wholeOfAll] of one.lines) {
      if (before !== null && number > before + 1) rows.push(this.gap(4));
      before = number;
      const own = found ? found.own.get(number) || 0 : ownOfAll, whole = found ? found.inlined.get(number) || 0 : wholeOfAll;
      rows.push(this.heated(whole, row(cell(shown(own), "number"), cell(shown(whole), "number"), cell(number, "number"), cell(text, "text"))));
    }
    this.table.tBodies[0].replaceChildren(...rows);
  }

  drawFunction(one) {
    const lines = this.kind.value === "source", shares = this.follows(one) ? sharesOf(one, this.weights) : null;
    const of = shares ? `${percent(this.whole ? shares.total / this.whole : 0)} of the selected samples` : `${percent(one.share)} of the whole recording`;
    this.about.textContent = `${one.module}, ${one.event}: ${of}; shares below are of the function`
      + (lines && !one.sources.length ? ". No lines of source are known: the file has no debug information, or its source is not here" : "");
    this.table.tBodies[0].replaceChildren(...(lines ? this.sourceRows(one, shares) : this.instructionRows(one, shares)));
    if (lines) head(this.table, [["Share", "number"], ["Line", "number"], ["Source", "text"]]);
    else head(this.table, [["Share", "number"], ["Address", "number"], ["Instruction", "text"], ["Source", "text"]]);
  }

  sourceRows(one, shares) {
    const rows = [];
    one.sources.forEach((source, i) => {
      const file = row(cell(percent(shares ? shares.bySource.get(i) || 0 : source.share), "number"), cell("", "number"), cell(source.path, "text"));
      file.className = "gap";
      rows.push(file);
      let before = null;
      for (const [number, whole, text] of source.lines) {
        const share = shares ? shares.byLine.get(`${i} ${number}`) || 0 : whole;
        if (before !== null && number > before + 1) rows.push(this.gap(3));
        before = number;
        rows.push(this.heated(share, row(cell(share ? percent(share) : "", "number"), cell(number, "number"), cell(text, "text"))));
      }
    });
    return rows;
  }

  instructionRows(one, shares) {
    let before = null;
    const rows = [];
    for (const [number, whole, address, text, source] of one.instructions) {
      const share = shares ? shares.byNumber.get(number) || 0 : whole;
      if (before !== null && number > before + 1) rows.push(this.gap(4));
      before = number;
      rows.push(this.heated(share, row(cell(share ? percent(share) : "", "number"), cell(address, "number"), cell(text, "text"), cell(source, "text"))));
    }
    return rows;
  }

  gap(columns) {
    const found = row(...Array.from({ length: columns }, (_, i) => cell(i === columns - 2 ? "\u22ee" : "", "number")));
    found.className = "gap";
    return found;
  }

  heated(share, line) {
    if (share) line.style.backgroundColor = `rgb(var(--heat) / ${Math.min(0.4, 0.06 + share / 2)})`;
    return line;
  }

  text() { return [...this.table.rows].map(line => [...line.cells].map(one => one.textContent).join("\t")).join("\n") + "\n"; }
}
