/* Running the cells of a page on the reader's own machine, through the Jupyter server that serves the page.

   Nothing here runs before somebody presses a button.  The first press starts a kernel, and every page keeps its
   own.  What the kernel sends is shown as JupyterLab would show it, without widgets: SVG and HTML that our own
   library made, and text.  Without a server the page stays as it is. */
"use strict";

(() => {
  const { server, cookie, page } = window.schedLabs;
  const cells = [...document.querySelectorAll(".bd-article div.cell")].filter((cell) => cell.querySelector(".cell_input pre"));
  if (cells.length === 0 || page.chapter === null) return;

  const MOST_TEXT = 100_000; // characters of a cell's text
  const EDITED_MS = 300_000, STOPS_WITHIN_MS = 10_000; // what a reader has written ends by then

  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  /* ---- a page that stands alone says how it comes alive ---- */

  const title = document.querySelector(".bd-article h1");
  if (server === null) {
    title.after(
      element("p", { className: "sl-note" },
        "The line below each figure says where and when it was measured. To measure on your own machine: ",
        element("code", { textContent: "make live" }), " in the book's folder."),
    );
    return;
  }

  /* ---- the kernel ---- */

  const request = async (method, path, body) => {
    const answer = await fetch(server + path, {
      method,
      body: body && JSON.stringify(body),
      headers: { "Content-Type": "application/json", "X-XSRFToken": cookie("_xsrf") || "" },
    });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.status === 204 ? null : answer.json();
  };

  const stamp = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

  class Kernel {
    /* One kernel and its channel.  Messages: https://jupyter-client.readthedocs.io/en/stable/messaging.html */
    static async start() {
      const kernel = new Kernel();
      kernel.session = stamp();
      kernel.id = (await request("POST", "api/kernels", { name: "python3", path: "notebooks" })).id;
      const address = new URL(`${server}api/kernels/${kernel.id}/channels?session_id=${kernel.session}`, location.href);
      address.protocol = address.protocol.replace("http", "ws");
      kernel.socket = new WebSocket(address);
      kernel.waiting = new Map();
      await new Promise((open, fail) => {
        kernel.socket.onopen = open;
        kernel.socket.onerror = () => fail(new Error("the kernel cannot be reached"));
      });
      kernel.socket.onmessage = ({ data }) => kernel.hear(JSON.parse(data));
      kernel.socket.onclose = () => {
        for (const { fail } of kernel.waiting.values()) fail(new Error("the kernel has gone"));
        kernel.waiting.clear();
        kernel.gone = true;
      };
      // The library then shows progress and growing figures as plain HTML.
      await kernel.run("import os; os.environ['SCHED_LABS_PAGE'] = '1'", () => {});
      return kernel;
    }

    hear(message) {
      const asked = this.waiting.get(message.parent_header?.msg_id);
      if (!asked) return;
      const { msg_type: type } = message.header;
      if (type === "status" && message.content.execution_state === "idle") {
        this.waiting.delete(message.parent_header.msg_id);
        asked.done();
      } else if (type !== "status" && message.channel === "iopub") asked.show(type, message.content);
    }

    run(code, show) {
      const id = stamp();
      return new Promise((done, fail) => {
        this.waiting.set(id, { show, done, fail });
        this.socket.send(JSON.stringify({
          header: { msg_id: id, msg_type: "execute_request", version: "5.3", session: this.session, username: "", date: new Date().toISOString() },
          parent_header: {}, metadata: {}, channel: "shell", buffers: [],
          content: { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false, stop_on_error: true },
        }));
      });
    }

    interrupt() { return request("POST", `api/kernels/${this.id}/interrupt`); }

    // A page that is left takes its kernel with it; `keepalive` lets the request outlive the page.
    leave() {
      this.socket.close();
      fetch(`${server}api/kernels/${this.id}`, { method: "DELETE", keepalive: true, headers: { "X-XSRFToken": cookie("_xsrf") || "" } });
    }
  }

  let kernel = null;
  let ran = []; // which cells this kernel has run, in order
  const ready = async () => {
    if (!kernel || kernel.gone) {
      kernel = await Kernel.start();
      ran = [];
    }
    return kernel;
  };
  addEventListener("pagehide", () => { if (kernel && !kernel.gone) kernel.leave(); });

  /* ---- what a cell shows ---- */

  const ansi = /\x1b\[[0-9;]*m/g;

  const drawn = (data) => {
    if (data["text/html"] !== undefined || data["image/svg+xml"] !== undefined) {
      const box = element("div", { className: "output text_html" });
      box.innerHTML = [data["text/html"] ?? data["image/svg+xml"]].flat().join("").replaceAll("<th></th>", "<td></td>");
      return box;
    }
    if (data["image/png"] !== undefined) return element("img", { src: `data:image/png;base64,${data["image/png"]}`, alt: "figure" });
    return element("pre", { className: "output", textContent: [data["text/plain"] ?? ""].flat().join("") });
  };

  // All cells of the chapter, those of its other pages among them: names come from anywhere in it.
  const told = document.querySelector("script.sl-chapter");
  const chapter = told ? JSON.parse(told.textContent) : null;
  const here = cells.map((cell) => ({ cell, code: cell.querySelector(".cell_input pre").textContent, made: new Map() }));
  const states = chapter && chapter.here.length === here.length
    ? chapter.cells.map((code, index) => here[chapter.here.indexOf(index)] ?? { cell: element("div"), code, made: new Map() })
    : here;

  /* ---- how long it takes, and what the reader ran last ---- */

  const seconds = chapter?.seconds ?? [];
  const lasts = (chosen) => {
    const all = chosen.reduce((sum, state) => sum + (seconds[states.indexOf(state)] ?? 0), 0);
    if (all < 2) return "";
    return all < 90 ? `about ${all < 10 ? Math.round(all) : 5 * Math.round(all / 5)} s` : `about ${Math.round(all / 60)} min`;
  };

  // This browser keeps the last run of each cell, as long as its code stays the same.
  const cupboard = new Promise((done) => {
    try {
      const asked = indexedDB.open("sched-labs", 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore("runs");
      asked.onsuccess = () => done(asked.result);
      asked.onerror = () => done(null);
    } catch {
      done(null); // storage may be switched off
    }
  });
  const name = (state) => `${page.chapter}\n${state.code}`;
  const keep = async (state, output) => {
    const runs = await cupboard;
    if (runs) runs.transaction("runs", "readwrite").objectStore("runs").put({ html: output.innerHTML, at: Date.now() }, name(state));
  };
  const lastOf = async (state) => {
    const runs = await cupboard;
    return runs && new Promise((done) => {
      const asked = runs.transaction("runs").objectStore("runs").get(name(state));
      asked.onsuccess = () => done(asked.result ?? null);
      asked.onerror = () => done(null);
    });
  };
  const bringBack = async () => {
    for (const state of here) {
      const last = await lastOf(state);
      if (!last || busy) continue;
      const output = emptied(state);
      output.innerHTML = last.html; // what this machine's library made, on this page
      if (output.querySelector("figure")) output.prepend(element("p", { className: "sl-note", textContent: `Your run of ${new Date(last.at).toLocaleString()}.` }));
      window.schedLabsModules?.wake(output);
      forms(output);
    }
    window.schedLabs.predictions.wake();
  };

  const emptied = (state) => {
    let output = state.cell.querySelector(":scope > .cell_output");
    if (!output) {
      output = element("div", { className: "cell_output docutils container" });
      state.cell.append(output);
    }
    if (!state.kept && output.childElementCount) {
      // What the page came with stays within reach.
      state.kept = element("details", { className: "sl-before" }, element("summary", { textContent: "as this page was built" }), ...output.childNodes);
      state.cell.append(state.kept);
    }
    output.replaceChildren();
    output.setAttribute("aria-live", "polite");
    return output;
  };

  // Run code and show what it sends in `output`; `made` keeps the displays that are updated.  False if it failed.
  const shown = async (code, output, made) => {
    const engine = await ready();
    let failed = false;
    made.clear();
    await engine.run(code, (type, content) => {
      if (type === "stream") {
        const last = output.lastElementChild;
        if (last?.dataset.stream === content.name) {
          if (last.textContent.length < MOST_TEXT) last.append(content.text.slice(0, MOST_TEXT));
          else last.dataset.more = "… and more, which this page does not keep.";
        } else {
          const text = element("pre", { className: "output stream", textContent: content.text });
          text.dataset.stream = content.name;
          output.append(text);
        }
      } else if (type === "display_data" || type === "execute_result") {
        const box = drawn(content.data);
        const name = content.transient?.display_id;
        if (name) made.set(name, box);
        output.append(box);
      } else if (type === "update_display_data") {
        const before = made.get(content.transient?.display_id);
        if (before) {
          const box = drawn(content.data);
          before.replaceWith(box);
          made.set(content.transient.display_id, box);
        }
      } else if (type === "error") {
        failed = true;
        output.append(element("pre", { className: "output sl-error", textContent: `${content.ename}: ${content.evalue}`.replace(ansi, "") }));
      }
    });
    window.schedLabsModules?.wake(output); // pictures that move
    return !failed;
  };

  // Sentences are prose, and what stands in columns stays as it is (sched_labs.book.layers.told).
  const prose = (text) => {
    if (!text.trim() || /\S {2,}\S|^ /m.test(text.replace(/^\n+|\n+$/g, ""))) return null;
    return element("div", { className: "sl-told" }, ...text.trim().split(/\n\s*\n/).map((part) => {
      const paragraph = element("p");
      let before = "";
      for (const line of part.split("\n")) {
        if (before) paragraph.append(/[.:?!]$/.test(before) ? element("br") : " ");
        paragraph.append(line.trim());
        before = line.trim();
      }
      return paragraph;
    }));
  };

  const execute = async (state) => {
    const index = states.indexOf(state);
    let worked = false;
    await ready(); // before the page's own output goes
    ran = ran.filter((before) => before !== index);
    const output = emptied(state);
    state.cell.classList.add("sl-running");
    try {
      worked = await shown(state.code, output, state.made);
      if (worked) ran.push(index);
      for (const said of output.querySelectorAll("pre.stream[data-stream=stdout]")) {
        const told = prose(said.textContent);
        if (told) said.replaceWith(told);
      }
    } finally {
      state.cell.classList.remove("sl-running");
    }
    if (worked) await keep(state, output);
    window.schedLabs.predictions.wake();
    forms(output);
    return worked;
  };

  // Forms that stand where JupyterLab has widgets: the kernel that made one answers it.
  const forms = (place) => {
    for (const form of place.querySelectorAll("form.sl-form")) {
      const output = form.parentElement.querySelector(".sl-answer");
      output.setAttribute("aria-live", "polite");
      const made = new Map();
      const owner = kernel;
      const send = async () => {
        if (busy) return;
        const given = JSON.stringify(Object.fromEntries(new FormData(form)));
        if (kernel !== owner || owner.gone) return output.replaceChildren("Run this cell again first.");
        occupy(true);
        const press = form.querySelector("button");
        press.disabled = true;
        // Runs with other values stand side by side, the newest first; a slider moves one picture.
        const place = element("div", { className: "sl-try" });
        if (form.querySelector("select")) {
          const words = [...form.querySelectorAll("label")].map((label) => `${label.firstChild.textContent.trim()}: ${label.querySelector("select").value}`);
          output.prepend(place);
          place.append(element("p", { textContent: words.join(", ") }));
        } else output.replaceChildren(place);
        const answer = element("div");
        place.append(answer);
        try {
          // A JSON text is a Python literal as well.
          await shown(`__import__("sched_labs.reader.widgets").reader.widgets.answer(${Number(form.dataset.form)}, ${JSON.stringify(given)})`, answer, made);
        } catch (error) {
          answer.replaceChildren(`That did not work: ${error.message}.`);
        } finally {
          occupy(false);
          press.disabled = false;
        }
      };
      form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
      for (const slider of form.querySelectorAll("input[type=range]")) {
        slider.addEventListener("input", () => { slider.nextElementSibling.textContent = slider.value; });
        slider.addEventListener("change", send);
      }
    }
  };

  /* ---- buttons ---- */

  const said = element("p", { className: "sl-said" });
  said.setAttribute("role", "status");
  let busy = false;

  const buttons = [];
  // One thing runs at a time: meanwhile its own button stops it, and the other ones wait.
  const occupy = (now, own = null) => {
    busy = now;
    for (const other of buttons) other.disabled = now && other !== own;
  };

  // Code that does not heed the interrupt loses its Python.
  let stopping = false, patience = 0;
  const stop = (why = "Stopping …") => {
    stopping = true;
    said.textContent = why;
    patience ||= setTimeout(() => kernel?.leave(), STOPS_WITHIN_MS);
    return kernel?.interrupt();
  };

  const run = async (chosen, button) => {
    if (busy) return stop();
    occupy(true, button);
    stopping = false;
    const limit = chosen.some(({ edited }) => edited) && setTimeout(() => stop(`Stopping after ${EDITED_MS / 60_000} minutes …`), EDITED_MS);
    const name = button.textContent;
    const label = button.getAttribute("aria-label");
    button.textContent = "Stop";
    button.removeAttribute("aria-label");
    // Where the reader has just clicked; under a cell's code, beside what it is about to show.
    (button.closest("div.cell")?.querySelector(":scope > :is(details, .cell_input)") ?? button.parentElement).after(said);
    try {
      said.textContent = kernel && !kernel.gone ? "" : "Starting Python on your machine …";
      await ready();
      const all = await withNeeded(chosen);
      const others = all.length - chosen.length;
      const why = others > 0 ? ` (${others} for names that are used here)` : "";
      for (const [place, state] of all.entries()) {
        if (stopping) break;
        const left = lasts(all.slice(place));
        said.textContent = `Running cell ${place + 1} of ${all.length} on your machine${why}${left && `, ${left} to go`} …`;
        if (!(await execute(state)) && !stopping) {
          said.textContent = "A cell failed; what it said stands below it.";
          return;
        }
      }
      said.textContent = stopping ? "Stopped. What was measured until then stands below its cell." : "Measured on your machine, just now.";
    } catch (error) {
      said.textContent = stopping ? "It did not stop, so its Python was ended: the next run starts a new one." : `That did not work: ${error.message}. Is the server still running?`;
    } finally {
      clearTimeout(limit);
      clearTimeout(patience);
      patience = 0;
      occupy(false);
      button.textContent = name;
      if (label) button.setAttribute("aria-label", label);
    }
  };

  const button = (text, label, choose) => {
    const made = element("button", { type: "button", className: "sl-run", textContent: text });
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", () => run(choose(), made));
    buttons.push(made);
    return made;
  };

  // A part of a page needs names that other cells make; which, the library says (sched_labs.book.needs).
  const withNeeded = async (chosen) => {
    const asked = [states.map((state) => state.code), chosen.map((state) => states.indexOf(state)), ran];
    let told = "";
    await (await ready()).run(
      `import json as _json\nprint(_json.dumps(__import__("sched_labs.book.needs", fromlist=["*"]).needed(*_json.loads(${JSON.stringify(JSON.stringify(asked))}))))`,
      (type, content) => { if (type === "stream") told += content.text; },
    );
    return JSON.parse(told).map((index) => states[index]);
  };

  const timed = (text, chosen) => [text, lasts(chosen)].filter(Boolean).join(", ");
  window.schedLabs.tools().prepend(button(timed("Run on this machine", here), timed("Run the whole page on this machine", here), () => here));
  const groups = new Map();
  for (const state of page.cut ? [] : here) {
    const place = state.cell.closest("section:has(> h2)");
    if (place) groups.set(place, [...(groups.get(place) ?? []), state]);
  }
  for (const [place, chosen] of groups) {
    const heading = place.querySelector(":scope > h2");
    const name = heading.firstChild.textContent.trim();
    const holder = element("p", { className: "sl-section" }, button(timed("Run on this machine", chosen), timed(`Run on this machine: ${name}`, chosen), () => chosen));
    heading.after(holder);
  }
  for (const state of here) {
    const one = button(timed("Run", [state]), timed("Run this cell", [state]), () => [state]);
    one.classList.add("sl-cell");
    state.cell.prepend(one); // beside the folded code
  }
  // For code that the reader edits: it is the cell's own from then on, and what it made before is made again.
  const change = (state, code, edited) => {
    Object.assign(state, { code, edited });
    ran = ran.filter((index) => states[index] !== state);
  };
  window.schedLabs.live = { here, button, change, busy: () => busy };
  bringBack();
})();
