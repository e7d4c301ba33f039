/* The data of the page -> its profile with the index, made in a worker so that the page answers meanwhile. */

import { categoryOfNodes } from "./activity.js";
import { FORMS, endsOf, formOf } from "./forms.js";
import { shapeOf } from "./trees.js";
import { profileOf } from "./unpack.js";

/* the text of all scripts, which the worker runs, too */
const SCRIPT = globalThis.document && document.currentScript ? document.currentScript.textContent : "";

/* The profile with all that does not depend on what is selected: categories, and the forms of the tree. */
async function preparedProfile(text) {
  const profile = await profileOf(JSON.parse(text)), { tree, names } = profile, ends = endsOf(profile);
  const forms = Object.fromEntries(FORMS.map(kind => [kind, formOf(tree, names, kind, ends)]));
  const shapes = new Map(); /* forms without left out frames are one tree */
  for (const form of Object.values(forms)) {
    if (!shapes.has(form.name)) shapes.set(form.name, shapeOf(form, names.length));
    form.shape = shapes.get(form.name);
  }
  return { ...profile, forms, categoryOf: categoryOfNodes(profile) };
}

/* The buffers of all columns in a value: they are handed over, not copied. */
function buffersOf(value, found = new Set()) {
  if (ArrayBuffer.isView(value)) found.add(value.buffer);
  else if (value && typeof value === "object") for (const one of Object.values(value)) buffersOf(one, found);
  return found;
}

/* In the worker: answer with the profile, or with nothing, so that the page tries itself. */
async function serve({ data: text }) {
  try {
    const profile = await preparedProfile(text);
    postMessage(profile, [...buffersOf(profile)]);
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

/* The profile of the page's data, made in a worker if there is one. */
export function loaded(text) {
  const worker = startedWorker();
  return new Promise(done => {
    const take = profile => {
      document.body.dataset.index = profile ? "worker" : "page";
      if (worker) worker.terminate();
      done(profile || preparedProfile(text));
    };
    if (!worker) { take(null); return; }
    worker.onmessage = ({ data }) => take(data);
    worker.onerror = event => { event.preventDefault(); take(null); };
    worker.postMessage(text);
  });
}
