/* The top of the page: verdict, recording, notes behind one badge, help. */

import { counted, literally } from "../model/words.js";
import { button, el } from "./elements.js";

const KEYS = [
  ["/", "search; marks functions, stacks, time line and marks"], ["1 to 9, 0", "views, in the order of the tabs"],
  ["w", "waits beside CPU time, or CPU time alone: the page opens with what its headline tells first"], ["m", "my code only, or all again"],
  ["f", "fold or unfold plumbing"], ["z", "zoom into the selected range, or out again"],
  ["a", "compare the selected range with the next one"], ["s", "callers and callees of the function"],
  ["c", "copy the view as text"], ["h n p", "code: the hottest line, the next hot one, the previous one"], ["Escape", "undo: zoom, search, selection, range"],
  ["e", "export: save the table of functions as CSV"],
  ["arrows", "move in graphs, trees and tables; on the time line, move the range, with Shift make it longer"],
  ["Enter", "zoom into a frame, open a row"], ["*", "open the hottest path of a row"], ["?", "this list"],
];

/* Texts and elements: options (--off-cpu) are not broken at their hyphens. */
const OPTION = /(?<!\S)(--?[A-Za-z][\w-]*)/;
const words = text => text.split(OPTION).map((part, i) => i % 2 ? el("span.held", { textContent: part }) : part).filter(part => part !== "");

/* A sentence whose functions are buttons. choose(name, column): shows the function by this column of the table. */
function sentence({ text, names, column }, choose) {
  const nameOf = new Map(names), found = [...nameOf.keys()].sort((a, b) => b.length - a.length).map(literally), parts = [];
  let place = 0;
  /* a full stop stays on the line of the function before it */
  for (const match of found.length ? text.matchAll(new RegExp(`(?<![\\w:.])(${found.join("|")})([.,;:)]*)`, "g")) : []) {
    const [whole, shown, end] = match, name = nameOf.get(shown);
    const link = button(shown, () => choose(name, column), { className: "evidence", title: `Show ${name}` });
    parts.push(...words(text.slice(place, match.index)), el("span.held", {}, link, end));
    place = match.index + whole.length;
  }
  return [...parts, ...words(text.slice(place))];
}

const PARTS = { title: "title", environment: "environment", headline: "headline", more: "headline-more", notes: "notes", notesBox: "notes-box", badge: "badge" };

/* characters of a sentence that is set in smaller letters */
const LONG = 120;

/* The sentences, the first without what follows a semicolon if it is too long to be read at once: {text, names, column} each. */
const LONGEST = 160;
function shortened([first, ...others]) {
  const end = first && first.text.length > LONGEST ? first.text.lastIndexOf("; ", LONGEST) : -1;
  if (end < 0) return first ? [first, ...others] : [];
  const rest = first.text.slice(end + 2).replace(/^and /, ""), isName = first.names.some(([shown]) => rest.startsWith(shown));
  return [{ ...first, text: `${first.text.slice(0, end)}.` }, { ...first, text: isName ? rest : rest[0].toUpperCase() + rest.slice(1) }, ...others];
}

/* the processes that are shown at once: few, and of more those with a share of the time */
const FEW_PROCESSES = 6, MATTERS = 0.01;

/* The processes of a service: share, name, and the hottest own function as a button; the rest by another. choose: as in sentence(). */
function showProcesses(processes, choose) {
  const box = document.getElementById("processes");
  if (!box) return;
  box.hidden = !processes.length;
  const row = ([name, share, inFunction, shown, full]) => el("tr", {},
    el("td.number", { textContent: `${(100 * share).toFixed(1)} %` }), el("th", { textContent: name, scope: "row" }),
    full ? el("td", {}, `${(100 * inFunction).toFixed(0)} % in `, button(shown, () => choose(full, "charged"), { className: "evidence", title: `Show ${full}` })) : el("td"));
  const show = count => {
    const rest = processes.slice(count), share = rest.reduce((sum, one) => sum + one[1], 0);
    const more = button(`${counted(rest.length, "more process")}, ${(100 * share).toFixed(1)} % in all`, () => show(processes.length), { className: "evidence" });
    box.querySelector("tbody").replaceChildren(...processes.slice(0, count).map(row), ...(rest.length ? [el("tr", {}, el("td"), el("td", { colSpan: 2 }, more))] : []));
  };
  const matter = processes.filter(([, share]) => share >= MATTERS).length;
  show(processes.length <= FEW_PROCESSES ? processes.length : Math.min(FEW_PROCESSES - 1, Math.max(1, matter)));
}

export function showTop(profile, choose) {
  const parts = Object.fromEntries(Object.entries(PARTS).map(([name, id]) => [name, document.getElementById(id)]));
  document.title = profile.title;
  const sentences = shortened(profile.headline);
  parts.title.textContent = profile.title;
  parts.environment.textContent = profile.environment.join(" \u00b7 ");
  parts.environment.parentElement.classList.toggle("of-two", profile.recordings > 1);
  parts.headline.classList.toggle("long", (sentences[0] || { text: "" }).text.length > LONG);
  parts.headline.replaceChildren(...(sentences.length ? sentence(sentences[0], choose) : [profile.title]));
  parts.more.replaceChildren(...sentences.slice(1).flatMap((one, i) => [...(i ? [" "] : []), ...sentence(one, choose)]));
  showProcesses(profile.processes || [], choose);
  parts.title.hidden = !sentences.length;
  parts.notes.replaceChildren(...profile.verdict.map(text => el("li", {}, ...words(text))));
  parts.badge.textContent = counted(profile.verdict.length, "note");
  parts.badge.hidden = !profile.verdict.length;
  parts.badge.onclick = () => { parts.notesBox.hidden = !parts.notesBox.hidden; parts.badge.setAttribute("aria-expanded", String(!parts.notesBox.hidden)); };
  showKeys(KEYS);
}

/* Fill the list of keys behind the button "?". keys: [key, what it does] */
export function showKeys(keys) {
  const [list, help, dialog] = ["keys", "help", "dialog"].map(id => document.getElementById(id));
  list.replaceChildren(...keys.flatMap(([key, text]) => [el("dt", {}, el("kbd", { textContent: key })), el("dd", { textContent: text })]));
  help.onclick = () => dialog.showModal();
}

/* Put a text on the clipboard; a page from a file may have to do it through a text field. */
async function copy(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* no permission, or no clipboard */ }
  const field = el("textarea", { value: text, "aria-hidden": true }), focused = document.activeElement;
  field.className = "copied";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (focused) focused.focus();
  return done;
}

/* Copy a text, and say how that went. */
export async function sayCopied(text, said) {
  document.getElementById("about").textContent = await copy(text) ? `${said}.` : "The browser does not let the page use the clipboard.";
}

/* What the page of a profile without events says. */
export const nothing = profile => profile.sides > 1 ? "The recordings have no event in common." : "The recording has none.";
