"use strict";
// Pages are made by the server. This script sends what is chosen, puts the parts that come back in their places, and fetches downloads.
const by = id => document.getElementById(id);

// The secret comes at the end of the address, which no server sees, and stays with this window and this port.
const SECRET = "r2b-token";

function keepSecret() {
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem(SECRET, given[1]);
    history.replaceState(null, "", location.pathname);
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

function complain(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof Fault)) throw error;
  const { problem, remedy, control } = error.answer;
  const place = by(`fault-${control}`) || by("fault-general") || by("fault-file");
  place.textContent = `${problem} ${remedy}`;
  place.hidden = false;
  const folded = place.closest("details");
  if (folded) folded.open = true;
  place.scrollIntoView({ block: "nearest" });
  document.querySelector(`[name="${control}"], #${CSS.escape(control)}`)?.setAttribute("aria-invalid", "true");
}

function forgive() {
  document.querySelectorAll(".fault[id]").forEach(each => { each.hidden = true; each.textContent = ""; });
  document.querySelectorAll("[aria-invalid]").forEach(each => each.removeAttribute("aria-invalid"));
}

function startPage(form) {
  const limit = Number(form.dataset.limit), busy = by("busy"), file = by("file"), drop = by("drop");
  const open = async (notice, address, body) => {
    forgive();
    busy.textContent = notice;
    try {
      location.assign((await (await ask(address, { body })).json()).page);
    } catch (error) {
      busy.textContent = "";
      file.value = "";
      complain(error);
    }
  };
  const send = chosen => {
    if (chosen.size > limit) {
      forgive();
      complain(new Fault({ problem: `${chosen.name} has ${(chosen.size / 1e6).toPrecision(3)} MB, and this app takes ${limit / 1e6} MB.`,
        remedy: "Start it with a larger --max-upload, or use r2b on the command line, which has no limit.", control: "file" }));
      return;
    }
    open(`Reading ${chosen.name}.`, `/tables?name=${encodeURIComponent(chosen.name)}`, chosen);
  };
  file.addEventListener("change", () => { if (file.files.length) send(file.files[0]); });
  by("adult").addEventListener("click", () => open("Opening the Adult data.", "/tables/adult"));
  for (const kind of ["dragover", "dragleave", "drop"]) drop.addEventListener(kind, event => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
}

function workPage(form) {
  const base = `/t/${form.dataset.id}`, slider = by("slider"), epsilon = by("epsilon"), cell = by("cell");
  const steps = Number(slider.max);
  const first = by("hint").textContent;
  let top = 0, answered = false, shownFor = "", turn = 0, wanted = false, loop = null, asking = null, drawing = null, telling = 0;

  const checked = name => [...form.querySelectorAll(`[name=${name}]:checked`)].map(each => each.value);
  const choice = () => ({
    label: form.label.value, sensitive: checked("sensitive"), control: checked("control"), weight: form.weight.value || null,
    missing: form.missing.value, families: form.families.value, bound: form.bound.value,
    epsilon: epsilon.value === "" || !Number.isFinite(epsilon.valueAsNumber) ? null : epsilon.valueAsNumber,
    cell: cell.value || null, form: by("form").value, kind: by("kind").value,
  });
  const post = (what, asked, signal) => ask(`${base}/${what}`, { body: JSON.stringify(asked), headers: { "content-type": "application/json" }, signal });
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
        const answer = await (await post("solve", choice(), asking.signal)).json();
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
      const { html } = await (await post("frontier", chosen, signal)).json();
      const why = top > 0 ? "One answer takes seconds here, so the path is not drawn. On the command line, r2b frontier draws it."
        : "There is nothing to trade: the labels are in parity as they are.";
      put("frontier", html.cost || `<p class="note">${why}</p>`);
      if (choice().epsilon !== chosen.epsilon) solve();
    } catch (error) {
      if (error.name !== "AbortError") put("frontier", "");
    }
  }

  async function audit(chosen) {
    const found = await (await post("audit", chosen)).json();
    if (key() !== shownFor) return;
    by("found-title").textContent = found.title;
    by("found").textContent = found.found;
    put("audit", found.audit);
  }

  async function code() {
    try { by("code").textContent = await (await post("code", choice())).text(); } catch { by("code").textContent = ""; }
  }

  const key = () => { const chosen = choice(); return JSON.stringify([chosen.label, chosen.sensitive, chosen.control, chosen.weight, chosen.missing]); };

  async function refresh() {
    const chosen = choice(), ready = chosen.label !== "" && chosen.sensitive.length > 0;
    by("hint").hidden = ready;
    by("hint").textContent = first;
    by("results").hidden = !ready;
    by("slider-label").textContent = form.bound.selectedOptions[0].dataset.note;
    forgive();
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

  form.addEventListener("change", refresh);
  form.addEventListener("submit", event => event.preventDefault());
  slider.addEventListener("input", () => {
    // Three figures are enough to choose by; the last step is rounded up, so that it is where nothing has to change.
    const wanted = top * Number(slider.value) / steps;
    epsilon.value = Number((Number(slider.value) === steps ? 1.005 * wanted : wanted).toPrecision(3));
    solve();
  });
  slider.addEventListener("change", code);
  epsilon.addEventListener("input", () => { place(); solve(); });
  epsilon.addEventListener("change", code);
  cell.addEventListener("change", solve);
  by("form").addEventListener("change", () => { code(); solve(); });

  const download = (button, what, busyWords) => by(button).addEventListener("click", async () => {
    const pressed = by(button);
    if (pressed.getAttribute("aria-disabled") === "true") return;
    pressed.setAttribute("aria-disabled", "true");
    by("busy").textContent = busyWords;
    forgive();
    try {
      const answer = await post(what, choice()), link = document.createElement("a");
      const name = decodeURIComponent(answer.headers.get("content-disposition").split("''")[1]);
      link.href = URL.createObjectURL(await answer.blob());
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      by("busy").textContent = `Saved as ${name}.`;
    } catch (error) {
      by("busy").textContent = "";
      complain(error);
    } finally {
      pressed.removeAttribute("aria-disabled");
    }
  });
  download("get-labels", "labels", "Making the labels.");
  download("get-report", "report", "Making the report.");
  download("get-code", "code", "Writing the code.");
  by("close").addEventListener("click", async () => { try { await ask(`${base}/close`); } finally { location.assign("/"); } });
  refresh();
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
