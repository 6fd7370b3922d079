"use strict";
// Pages are made by the server. This script sends what is chosen, puts the parts that come back in their places, and fetches downloads.
const by = id => document.getElementById(id);

// The secret comes at the end of the address, which no server sees, and stays with this window and this port.
const SECRET = "r2b-token";

function keepSecret() {
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem(SECRET, given[1]);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return Boolean(given);
}

const signed = (headers = {}) => ({ ...headers, "x-r2b-token": sessionStorage.getItem(SECRET) || "" });

class Fault extends Error {
  constructor(answer) { super(answer.problem); this.answer = answer; }
}

async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { method: "POST", ...options, headers: signed(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault({ problem: "The app does not answer.", remedy: "It may have been stopped: look at its terminal, and start it again.", control: "general" });
  }
  if (answer.ok) return answer;
  let fault = { problem: `The app answered ${answer.status}.`, remedy: "Load the page again.", control: "general" };
  try { fault = await answer.json(); } catch { /* not ours: the status says what there is to say */ }
  throw new Fault(fault);
}

function complain(error, beside = null) {
  if (error.name === "AbortError") return;
  if (!(error instanceof Fault)) throw error;
  const { problem, remedy, control } = error.answer;
  const place = beside || by(`fault-${control}`) || by("fault-general") || by("fault-file");
  place.textContent = `${problem} ${remedy}`;
  place.hidden = false;
  const folded = place.closest("details");
  if (folded) folded.open = true;
  place.scrollIntoView({ block: "nearest" });
  document.querySelector(`[data-desk]:not([hidden]) [name="${control}"], #${CSS.escape(control)}`)?.setAttribute("aria-invalid", "true");
}

// What a button does, and what came of it, stands beside the button.
async function pressing(button, words, work) {
  const said = by(`said-${button.id}`);
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  forgive();
  said.classList.remove("fault");
  said.textContent = words;
  try {
    said.textContent = await work() || "";
  } catch (error) {
    said.textContent = "";
    said.classList.add("fault");
    complain(error, said);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

const post = (address, asked, signal) => ask(address, { body: JSON.stringify(asked), headers: { "content-type": "application/json" }, signal });

async function save(answer) {
  const name = decodeURIComponent(answer.headers.get("content-disposition").split("''")[1]), link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  return `Saved as ${name}.`;
}

function forgive() {
  document.querySelectorAll(".fault[id]").forEach(each => { each.hidden = !each.id.startsWith("said-"); each.textContent = ""; });
  document.querySelectorAll("[aria-invalid]").forEach(each => each.removeAttribute("aria-invalid"));
}

function startPage(form) {
  const limit = Number(form.dataset.limit), busy = by("busy"), file = by("file"), drop = by("drop"), sheet = by("sheet");
  let last = null;
  const open = async (notice, address, body) => {
    forgive();
    busy.textContent = notice;
    try {
      location.assign((await (await ask(address, { body })).json()).page);
    } catch (error) {
      busy.textContent = "";
      file.value = "";
      complain(error);
      if (body) how(error.answer?.sheets);
    }
  };
  // A file that cannot be read as it seems to be written may be read in another way.
  const how = sheets => {
    const text = !/\.(parquet|pq|arrow|feather|ipc|xlsx)$/i.test(last.name);
    by("how").hidden = !(text || sheets);
    by("sheet-field").hidden = !sheets;
    by("how").querySelectorAll(".text-field").forEach(each => { each.hidden = !text; });
    sheet.replaceChildren(...(sheets || []).map(name => new Option(name, name)));
  };
  const send = (chosen, read = {}) => {
    last = chosen;
    if (chosen.size > limit) {
      forgive();
      complain(new Fault({ problem: `${chosen.name} has ${(chosen.size / 1e6).toPrecision(3)} MB, and this app takes ${limit / 1e6} MB.`,
        remedy: "Start it with a larger --max-upload, or use r2b on the command line, which has no limit.", control: "file" }));
      return;
    }
    open(`Reading ${chosen.name}.`, `/tables?${new URLSearchParams({ name: chosen.name, ...read })}`, chosen);
  };
  file.addEventListener("change", () => { if (file.files.length) { by("how").hidden = true; send(file.files[0]); } });
  by("again").addEventListener("click", () => send(last, { encoding: by("encoding").value, delimiter: by("delimiter").value, sheet: sheet.value }));
  by("adult").addEventListener("click", () => open("Opening the Adult data.", "/tables/adult"));
  for (const kind of ["dragover", "dragleave", "drop"]) drop.addEventListener(kind, event => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
}

// What is chosen on a form: lists of names, texts, numbers and yes or no, by the names of the controls.
function chosenOn(form) {
  const found = {};
  for (const each of form.elements) {
    if (!each.name) continue;
    if (each.dataset.flag !== undefined) found[each.name] = each.checked;
    else if (each.type === "checkbox") (found[each.name] ??= []).push(...(each.checked ? [each.value] : []));
    else if (each.type === "number") found[each.name] = each.value === "" || !Number.isFinite(each.valueAsNumber) ? null : each.valueAsNumber;
    else found[each.name] = each.value;
  }
  return found;
}

function putOn(form, chosen) {
  for (const each of form.elements) {
    if (!each.name) continue;
    const given = chosen.getAll(each.name);
    if (each.type === "checkbox") each.checked = given.includes(each.dataset.flag !== undefined ? "true" : each.value);
    else if (each.tagName === "SELECT") each.selectedIndex = Math.max(0, [...each.options].findIndex(option => option.value === given[0]));
    else if (given.length) each.value = given[0];
  }
}

// Choices stand in the address, which reload, back and a copied link keep. They are names of columns and numbers, and reach no other machine.
function addressOf(task, chosen) {
  const query = new URLSearchParams({ task });
  for (const [name, value] of Object.entries(chosen)) for (const each of Array.isArray(value) ? value : [value]) if (each !== null && each !== "" && each !== false) query.append(name, each);
  return `${location.pathname}?${query}`;
}

function keepChoice(task, chosen, step) {
  const address = addressOf(task, chosen);
  if (address === location.pathname + location.search) return;
  history[step ? "pushState" : "replaceState"](null, "", address);
}

const ROLES = { label: "Label", scores: "Probabilities", prediction: "Prediction", sensitive: "Groups by", control: "Within", features: "Seen by the model", weight: "Weight" };

// The columns that are chosen, above the answer and beside their lists: they stay in sight however long a list or a page is.
function showChosen(form, place) {
  const chosen = chosenOn(form), parts = [];
  for (const [name, title] of Object.entries(ROLES)) {
    const names = [chosen[name] ?? []].flat().filter(Boolean);
    const beside = form.querySelector(`[data-picked="${name}"]`);
    if (beside) {
      beside.hidden = !names.length;
      beside.textContent = `Chosen: ${names.join(", ")}`;
    }
    if (!names.length) continue;
    const part = document.createElement("span"), role = document.createElement("b"), text = document.createElement("bdi");
    role.textContent = title;
    text.textContent = names.join(", ");
    part.append(role, " ", text);
    parts.push(part);
  }
  place.replaceChildren(...parts);
  place.hidden = !parts.length;
}

function taskForm(form, base) {
  const task = form.dataset.task, desk = form.closest(".desk"), made = by(`made-${task}`), hint = desk.querySelector(".hint"), shown = made.querySelector(".shown");
  const chosen = () => ({ task, ...chosenOn(form) });
  const refresh = () => showChosen(form, desk.querySelector(".chosen"));
  const stale = () => made.classList.add("stale");
  form.addEventListener("change", event => {
    keepChoice(task, chosenOn(form), true);
    refresh();
    if (!["form", "kind"].includes(event.target.name)) stale();
  });
  form.addEventListener("submit", event => {
    event.preventDefault();
    pressing(by(`get-${task}`), "This may take a moment.", async () => {
      shown.innerHTML = (await (await post(`${base}/made`, chosen())).json()).html; // made by the server, which escapes every value
      made.hidden = false;
      made.classList.remove("stale");
      hint.hidden = true;
      made.scrollIntoView({ block: "nearest" }); // on a narrow page it is below the form
    });
  });
  const take = desk.querySelector(".take-made");
  take?.addEventListener("click", () => pressing(take, "Making the file.", async () => save(await post(`${base}/file`, chosen()))));
  return { task, read: () => chosenOn(form), refresh, restore: query => { putOn(form, query); stale(); refresh(); } };
}

function workPage(form) {
  const base = `/t/${form.dataset.id}`, slider = by("slider"), epsilon = by("epsilon"), cell = by("cell");
  const steps = Number(slider.max);
  const first = by("hint").textContent;
  let top = 0, answered = false, shownFor = "", turn = 0, wanted = false, loop = null, asking = null, drawing = null, telling = 0;

  const checked = name => [...form.querySelectorAll(`[name=${name}]:checked`)].map(each => each.value);
  const besides = ["epsilon", "form", "kind"]; // that are chosen, and stand beside the answer
  const choice = () => ({
    label: form.label.value, sensitive: checked("sensitive"), control: checked("control"), weight: form.weight.value || null,
    missing: form.missing.value, families: form.families.value, bound: form.bound.value,
    epsilon: epsilon.value === "" || !Number.isFinite(epsilon.valueAsNumber) ? null : epsilon.valueAsNumber,
    ...Object.fromEntries([...form.querySelectorAll("[data-bound]:not([hidden]) input")].map(each => [each.name, each.value])),
    cell: cell.value || null, form: by("form").value, kind: by("kind").value,
  });
  const put = (id, html) => { by(id).innerHTML = html; }; // made by the server, which escapes every value

  const place = () => { if (top > 0) slider.value = Math.round(steps * Math.min(epsilon.valueAsNumber || 0, top) / top); };

  function show(answer) {
    const { html } = answer;
    answered = true;
    top = answer.top;
    place();
    put("verdict", html.verdict);
    put("proof", html.proof);
    put("flows", html.flows);
    put("channel", html.channel);
    by("leaving").textContent = answer.leaving;
    if (html.cost) put("frontier", html.cost);
    slider.setAttribute("aria-valuetext", `epsilon ${answer.epsilon.toPrecision(3)}: ${answer.summary}`);
    if ([...cell.options].map(each => each.value).join("\n") !== answer.cells.join("\n")) cell.replaceChildren(...answer.cells.map(name => new Option(name, name)));
    cell.value = answer.cell;
    by("results").dataset.milliseconds = answer.milliseconds.all;
    // A screen reader hears where the slider came to rest, not every step on the way.
    clearTimeout(telling);
    telling = setTimeout(() => { by("summary").textContent = answer.summary; }, 400);
  }

  // One solve at a time; of the moves made meanwhile only the last counts. Whoever asked hears when nothing is left to solve.
  function solve() {
    wanted = true;
    loop ??= run().finally(() => { loop = null; });
    return loop;
  }

  async function run() {
    while (wanted) {
      wanted = false;
      asking = new AbortController();
      const slow = setTimeout(() => { by("working").hidden = false; }, 400);
      try {
        const answer = await (await post(`${base}/solve`, choice(), asking.signal)).json();
        if (!wanted) { forgive(); show(answer); by("results").classList.remove("stale"); }
      } catch (error) {
        if (!wanted) { forgive(); by("results").classList.add("stale"); blank(); complain(error); }
      } finally {
        clearTimeout(slow);
        by("working").hidden = true;
      }
    }
  }

  // Headings without a number under them help nobody: before there is an answer, a fault leaves the page as empty as it was.
  function blank() {
    by("results").hidden = !answered;
    by("hint").hidden = answered;
    by("hint").textContent = "There is no answer yet. Beside the choices stands what has to be settled first.";
  }

  async function draw() {
    drawing?.abort();
    drawing = new AbortController();
    const chosen = choice(), { signal } = drawing;
    put("frontier", "<p class=\"note\">Solving along the path.</p>");
    try {
      const { html } = await (await post(`${base}/frontier`, chosen, signal)).json();
      const why = top > 0 ? "One answer takes seconds here, so the path is not drawn. On the command line, r2b frontier draws it."
        : "There is nothing to trade: the labels are in parity as they are.";
      put("frontier", html.cost || `<p class="note">${why}</p>`);
      if (choice().epsilon !== chosen.epsilon) solve();
    } catch (error) {
      if (error.name !== "AbortError") put("frontier", "");
    }
  }

  async function audit(chosen) {
    const found = await (await post(`${base}/audit`, chosen)).json();
    if (key() !== shownFor) return;
    by("found-title").textContent = found.title;
    by("found").textContent = found.found;
    put("audit", found.audit);
  }

  async function code() {
    try { by("code").textContent = await (await post(`${base}/code`, choice())).text(); } catch { by("code").textContent = ""; }
  }

  const key = () => { const chosen = choice(); return JSON.stringify([chosen.label, chosen.sensitive, chosen.control, chosen.weight, chosen.missing]); };

  async function refresh() {
    const chosen = choice(), ready = chosen.label !== "" && chosen.sensitive.length > 0;
    by("hint").hidden = ready;
    by("hint").textContent = first;
    by("results").hidden = !ready;
    for (const each of form.querySelectorAll("[data-bound]")) each.hidden = each.dataset.bound !== form.bound.value;
    by("slider-label").textContent = form.bound.selectedOptions[0].dataset.note;
    forgive();
    showChosen(form, by("chosen"));
    for (const box of form.querySelectorAll("[type=checkbox]")) box.disabled = box.value === chosen.label && !box.checked;
    if (!ready) return;
    by("results").classList.add("stale");
    const mine = ++turn;
    drawing?.abort();
    asking?.abort(); // an answer to another question is not waited for
    await solve();
    // A later change sees to the rest itself; what is wrong stands beside its control.
    if (mine !== turn || by("results").classList.contains("stale")) return;
    const now = key();
    if (now !== shownFor) {
      shownFor = now;
      audit(choice()).catch(complain);
    }
    draw();
    code();
  }

  const state = () => {
    const { cell: _, ...kept } = choice();
    return kept;
  };
  const keep = step => keepChoice("labels", state(), step);
  form.addEventListener("change", () => { keep(true); refresh(); });
  form.addEventListener("submit", event => event.preventDefault());
  slider.addEventListener("input", () => {
    // Three figures are enough to choose by; the last step is rounded up, so that it is where nothing has to change.
    const wanted = top * Number(slider.value) / steps;
    epsilon.value = Number((Number(slider.value) === steps ? 1.005 * wanted : wanted).toPrecision(3));
    solve();
  });
  slider.addEventListener("change", () => { keep(true); code(); });
  epsilon.addEventListener("input", () => { place(); solve(); });
  epsilon.addEventListener("change", () => { keep(true); code(); });
  cell.addEventListener("change", solve);
  by("form").addEventListener("change", () => { keep(true); code(); solve(); });
  by("kind").addEventListener("change", () => keep(true));

  const download = (id, what, words) => by(id).addEventListener("click", () => pressing(by(id), words, async () => save(await post(`${base}/${what}`, choice()))));
  download("get-labels", "labels", "Making the labels.");
  download("get-report", "report", "Making the report.");
  download("get-code", "code", "Writing the code.");
  by("close").addEventListener("click", async () => { try { await ask(`${base}/close`); } finally { location.assign("/"); } });
  by("reread")?.addEventListener("submit", event => {
    event.preventDefault();
    pressing(by("get-reread"), "Reading.", async () => { await post(`${base}/read`, chosenOn(event.target)); location.reload(); });
  });

  const labels = {
    task: "labels", read: state, refresh,
    restore: query => {
      putOn(form, query);
      for (const name of besides) if (query.has(name)) by(name).value = query.get(name);
      refresh();
    },
  };
  const desks = [labels, ...[...document.querySelectorAll("form.task")].map(each => taskForm(each, base))];
  const current = () => new URLSearchParams(location.search).get("task") || "labels";

  function turnTo(task) {
    const desk = desks.find(each => each.task === task) || labels;
    document.querySelectorAll("[data-desk]").forEach(each => { each.hidden = each.dataset.desk !== desk.task; });
    document.querySelectorAll("nav.tasks button").forEach(each => each.toggleAttribute("aria-current", each.dataset.task === desk.task));
    document.querySelectorAll("nav.tasks [aria-current]").forEach(each => each.setAttribute("aria-current", "true"));
    return desk;
  }

  document.querySelectorAll("nav.tasks button").forEach(each => each.addEventListener("click", () => {
    const desk = turnTo(each.dataset.task);
    keepChoice(desk.task, desk.read(), true);
    desk.refresh();
  }));
  addEventListener("popstate", () => { if (location.search) turnTo(current()).restore(new URLSearchParams(location.search)); });
  const desk = turnTo(current());
  if (location.search) desk.restore(new URLSearchParams(location.search));
  else {
    keep(false);
    refresh();
  }
}

// The page that the server gives to everyone is empty: its content is asked for with the secret.
async function load(typed = false) {
  let answer;
  try {
    answer = await fetch(`${location.pathname.replace(/\/$/, "")}/page`, { headers: signed() });
  } catch {
    return lock("The program does not answer.", "It may have been stopped: look at its terminal, and start it again.");
  }
  if (answer.status === 403 && !sessionStorage.getItem(SECRET)) return lock("This page needs the secret of the program.", "It is at the end of the address that r2b serve printed.");
  if (answer.status === 403 && typed) return lock("This is not the secret of this run.", "It stands after token= in the address that r2b serve printed last.");
  if (!(answer.headers.get("content-type") || "").startsWith("text/html")) {
    const fault = await answer.json().catch(() => ({ problem: `The program answered ${answer.status}.`, remedy: "Load the page again." }));
    return lock(answer.status === 403 ? "The program was started anew." : fault.problem,
      answer.status === 403 ? "This page belongs to a run before, whose tables are gone. Open the address that r2b serve printed last." : fault.remedy);
  }
  const made = new DOMParser().parseFromString(await answer.text(), "text/html"); // made by the server, which escapes every value
  document.title = made.title;
  document.body.replaceChildren(...made.body.childNodes);
  if (by("open")) startPage(by("open"));
  if (by("choice")) workPage(by("choice"));
}

function lock(title, why) {
  by("locked").hidden = false;
  by("locked-title").textContent = title;
  by("locked-why").textContent = why;
}

by("unlock")?.addEventListener("submit", event => {
  event.preventDefault();
  sessionStorage.setItem(SECRET, by("secret").value.split("token=").pop().trim());
  load(true);
});
addEventListener("hashchange", () => { if (keepSecret()) location.reload(); });
if (by("locked")) {
  keepSecret();
  load();
}
