/* The code of hot functions: lines of source and instructions, with what the whole recording has there. */

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
  constructor(parts, code) {
    Object.assign(this, parts, { code });
    this.section.hidden = !code.length;
    this.choice.append(...code.map((one, i) => new Option(`${percent(one.share)} ${one.name}`, i)));
    this.choice.onchange = this.kind.onchange = () => this.draw();
    if (code.length) this.show(code[0].name, code[0].module);
  }

  /* The code of a function, if it is here. */
  show(name, module) {
    const i = this.code.findIndex(one => one.name === name && one.module === module);
    if (i < 0) return;
    this.choice.value = String(i);
    this.kind.value = this.code[i].sources.length ? "source" : "instructions";
    this.draw();
  }

  draw() {
    const one = this.code[Number(this.choice.value)], lines = this.kind.value === "source";
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
        if (before !== null && number > before + 1) rows.push(this.gap());
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
      if (before !== null && number > before + 1) rows.push(this.gap());
      before = number;
      rows.push(this.heated(share, row(cell(share ? percent(share) : "", "number"), cell(address, "number"), cell(text, "text"), cell(source, "text"))));
    }
    return rows;
  }

  gap() {
    const found = row(cell("", "number"), cell("\u22ee", "number"), cell("", "text"));
    found.className = "gap";
    return found;
  }

  heated(share, line) {
    if (share) line.style.backgroundColor = `rgb(var(--heat) / ${Math.min(0.6, 0.06 + share)})`;
    return line;
  }
}
