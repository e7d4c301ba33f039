/* The code of hot files and functions: lines of source and instructions, with what the whole recording has there. */

import { percent } from "./words.js";

const cell = (text, kind) => {
  const found = document.createElement("td");
  found.className = kind;
  found.textContent = text;
  return found;
};

const row = (...cells) => {
  const found = document.createElement("tr");
  found.append(...cells);
  return found;
};

function head(table, titles) {
  table.tHead.replaceChildren(row(...titles.map(([title, kind]) => {
    const found = document.createElement("th");
    found.scope = "col";
    found.className = kind;
    found.textContent = title;
    return found;
  })));
}

export class CodeView {
  constructor(parts, code, files) {
    Object.assign(this, parts, { code, files });
    this.section.hidden = !code.length && !files.length;
    const group = (label, options) => {
      const found = document.createElement("optgroup");
      found.label = label;
      found.append(...options);
      if (options.length) this.choice.append(found);
    };
    const events = new Set([...files, ...code].map(one => one.event));
    const option = (one, value) => new Option(`${percent(one.share)} ${one.name}${events.size > 1 ? ` (${one.event})` : ""}`, value);
    group("Source files", files.map((one, i) => option(one, `file ${i}`)));
    group("Functions", code.map((one, i) => option(one, `function ${i}`)));
    this.choice.onchange = this.kind.onchange = () => this.draw();
    if (!this.section.hidden) this.draw();
  }

  /* The code of a function, if it is here. */
  show(name, module) {
    const i = this.code.findIndex(one => one.name === name && one.module === module);
    if (i < 0) return;
    this.choice.value = `function ${i}`;
    this.kind.value = this.code[i].sources.length ? "source" : "instructions";
    this.draw();
  }

  /* Samples say no addresses here: the code of a range is in a page of that range. part: where it begins and ends, of the whole, 0 to 1. */
  rangeIs(part) {
    this.note.hidden = !part;
    if (!part) return;
    const [from, to] = part.map(share => (100 * share).toFixed(1));
    this.note.textContent = `This is of the whole recording; of the range that is selected: perfpy report --html FILE --time ${from}%-${to}%`;
  }

  draw() {
    const [kind, number] = this.choice.value.split(" ");
    this.kind.parentElement.hidden = kind === "file";
    if (kind === "file") this.drawFile(this.files[number]); else this.drawFunction(this.code[number]);
  }

  drawFile(one) {
    this.about.textContent = `${one.event}: ${percent(one.share)} of the whole recording, ${percent(one.own)} without inlined code`
      + (one.lines.some(([, , text]) => text) ? "" : ". The file is not here, or not called as source files are");
    head(this.table, [["Own", "number"], ["+ inlined", "number"], ["Line", "number"], ["Source", "text"]]);
    let before = null;
    const rows = [], shown = share => share ? percent(share) : "";
    for (const [number, own, text, whole] of one.lines) {
      if (before !== null && number > before + 1) rows.push(this.gap(4));
      before = number;
      rows.push(this.heated(whole, row(cell(shown(own), "number"), cell(shown(whole), "number"), cell(number, "number"), cell(text, "text"))));
    }
    this.table.tBodies[0].replaceChildren(...rows);
  }

  drawFunction(one) {
    const lines = this.kind.value === "source";
    this.about.textContent = `${one.module}, ${one.event}: ${percent(one.share)} of the whole recording; shares below are of the function`
      + (lines && !one.sources.length ? ". No lines of source are known: the file has no debug information, or its source is not here" : "");
    this.table.tBodies[0].replaceChildren(...(lines ? this.sourceRows(one) : this.instructionRows(one)));
    if (lines) head(this.table, [["Share", "number"], ["Line", "number"], ["Source", "text"]]);
    else head(this.table, [["Share", "number"], ["Address", "number"], ["Instruction", "text"], ["Source", "text"]]);
  }

  sourceRows(one) {
    const rows = [];
    for (const source of one.sources) {
      const file = row(cell(percent(source.share), "number"), cell("", "number"), cell(source.path, "text"));
      file.className = "gap";
      rows.push(file);
      let before = null;
      for (const [number, share, text] of source.lines) {
        if (before !== null && number > before + 1) rows.push(this.gap(3));
        before = number;
        rows.push(this.heated(share, row(cell(share ? percent(share) : "", "number"), cell(number, "number"), cell(text, "text"))));
      }
    }
    return rows;
  }

  instructionRows(one) {
    let before = null;
    const rows = [];
    for (const [number, share, address, text, source] of one.instructions) {
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
    if (share) line.style.backgroundColor = `rgb(var(--heat) / ${Math.min(0.6, 0.06 + share)})`;
    return line;
  }
}
