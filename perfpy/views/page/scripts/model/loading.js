/* The data of the page -> its profile with the index, made in a worker so that the page answers meanwhile. */

import { categoryOfNodes } from "./activity.js";
import { endsOf, formOf, headlined } from "./forms.js";
import { callerPairs, chargedFunctions, shapeOf } from "./trees.js";
import { beginningOf, complete } from "./unpack.js";

/* the text of all scripts, which the worker runs, too */
const SCRIPT = globalThis.document && document.currentScript ? document.currentScript.textContent : "";

/* {profile: what draws a whole recording, with all that does not depend on what is selected; rest() -> what all else needs (finished())}. */
async function prepared(text) {
  const { profile, rest } = await beginningOf(JSON.parse(text)), { tree, names } = profile, ends = endsOf(profile), shapes = new Map();
  const made = kind => { /* forms without left out frames are one tree */
    const form = formOf(tree, names, kind, ends, kind === "folded" ? headlined(profile) : []);
    if (!shapes.has(form.name)) shapes.set(form.name, shapeOf(form, names.length));
    return { ...form, shape: shapes.get(form.name) };
  };
  const forms = { all: made("all"), folded: made("folded") }, own = () => { const form = made("own"); return form.name === tree.name ? null : form; };
  const ofNodes = { categoryOf: categoryOfNodes(profile), charged: chargedFunctions(tree, profile.charges) };
  return { profile: { ...profile, forms, ...ofNodes }, rest: async () => ({ tables: await rest(), own: own(), pairs: callerPairs(tree, names.length, profile.charges) }) };
}

/* The profile with all of it: tables of samples, the form of own code, null if that is the whole tree, and the pairs of functions and callers. */
function finished(profile, { tables, own, pairs }) {
  profile.forms.own = own || profile.forms.all;
  callerPairs(profile.forms.all, profile.names.length, profile.charges, pairs);
  return complete(profile, tables);
}

/* The buffers of all columns in a value: they are handed over, not copied. */
function buffersOf(value, found = new Set()) {
  if (ArrayBuffer.isView(value)) found.add(value.buffer);
  else if (value && typeof value === "object") for (const one of Object.values(value)) buffersOf(one, found);
  return found;
}

/* In the worker: answer with the profile and then with the rest, or with nothing, so that the page tries itself. The tree is needed for both. */
async function serve({ data: text }) {
  try {
    const { profile, rest } = await prepared(text), kept = buffersOf(profile.tree);
    postMessage(profile, [...buffersOf(profile)].filter(buffer => !kept.has(buffer)));
    const more = await rest();
    postMessage(more, [...buffersOf(more)]);
  } catch { postMessage(null); }
}

/* Whether this is the worker, which then waits for the data. */
export function inWorker() {
  if (globalThis.document) return false;
  globalThis.onmessage = serve;
  return true;
}

/* A worker that runs these scripts, or null where the browser has none for this page. */
function startedWorker() {
  try {
    const url = URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" }));
    return new Worker(globalThis.trustedTypes ? trustedTypes.createPolicy("perfpy", { createScriptURL: one => one }).createScriptURL(url) : url);
  } catch { return null; }
}

/* The profile of the page's data, made in a worker if there is one: {profile: what draws it, rest: a promise that all of it is there}. */
export function loaded(text) {
  const worker = startedWorker(), answers = [], waiting = [];
  const next = () => new Promise(done => { if (answers.length) done(answers.shift()); else waiting.push(done); });
  const take = answer => { if (waiting.length) waiting.shift()(answer); else answers.push(answer); };
  if (worker) {
    worker.onmessage = ({ data }) => take(data);
    worker.onerror = event => { event.preventDefault(); take(null); };
    worker.postMessage(text);
  }
  return (async () => {
    const first = worker && await next(), here = first ? null : await prepared(text), profile = first || here.profile;
    const others = async () => finished(profile, first && await next() || await (here || await prepared(text)).rest());
    const rest = others().finally(() => worker && worker.terminate());
    document.body.dataset.index = first ? "worker" : "page";
    return { profile, rest };
  })();
}
