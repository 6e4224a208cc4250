/* Running the cells of a page on the reader's own machine, through the Jupyter server that serves the page.

   Nothing here runs before somebody presses a button.  The first press starts a kernel, and every page keeps its
   own.  What the kernel sends is shown as JupyterLab would show it, without widgets: SVG and HTML that our own
   library made, and text.  Without a server the page stays as it is. */
"use strict";

(() => {
  const { server, cookie } = window.schedLabs;
  const cells = [...document.querySelectorAll(".bd-article div.cell")].filter((cell) => cell.querySelector(".cell_input pre"));
  if (cells.length === 0 || !location.pathname.includes("/notebooks/")) return;

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
        "The figures on this page were measured when it was built. To run them on your own machine: ",
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
      fetch(`${server}api/kernels/${this.id}`, { method: "DELETE", keepalive: true, headers: { "X-XSRFToken": cookie("_xsrf") || "" } });
    }
  }

  let kernel = null;
  const ready = async () => {
    if (!kernel || kernel.gone) {
      kernel = await Kernel.start();
      for (const state of states) state.fresh = false;
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

  const states = cells.map((cell) => ({ cell, code: cell.querySelector(".cell_input pre").textContent, fresh: false, made: new Map() }));

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

  const execute = async (state) => {
    const engine = await ready();
    const output = emptied(state);
    let failed = false;
    state.cell.classList.add("sl-running");
    state.made.clear();
    try {
      await engine.run(state.code, (type, content) => {
        if (type === "stream") {
          const last = output.lastElementChild;
          if (last?.dataset.stream === content.name) last.textContent += content.text;
          else {
            const text = element("pre", { className: "output stream", textContent: content.text });
            text.dataset.stream = content.name;
            output.append(text);
          }
        } else if (type === "display_data" || type === "execute_result") {
          const box = drawn(content.data);
          const name = content.transient?.display_id;
          if (name) state.made.set(name, box);
          output.append(box);
        } else if (type === "update_display_data") {
          const before = state.made.get(content.transient?.display_id);
          if (before) {
            const box = drawn(content.data);
            before.replaceWith(box);
            state.made.set(content.transient.display_id, box);
          }
        } else if (type === "error") {
          failed = true;
          output.append(element("pre", { className: "output sl-error", textContent: `${content.ename}: ${content.evalue}`.replace(ansi, "") }));
        }
      });
    } finally {
      state.cell.classList.remove("sl-running");
    }
    state.fresh = !failed;
    window.schedLabs.wire(output); // forms for predictions
    return !failed;
  };

  /* ---- buttons ---- */

  const said = element("p", { className: "sl-said" });
  said.setAttribute("role", "status");
  let busy = false;

  const run = async (chosen, button) => {
    if (busy) return kernel?.interrupt();
    busy = true;
    const name = button.textContent;
    button.textContent = "Stop";
    // Where the reader has just clicked; under a cell's code, beside what it is about to show.
    (button.closest("div.cell")?.querySelector(".cell_input") ?? button.parentElement).after(said);
    document.body.classList.add("sl-busy");
    try {
      said.textContent = kernel && !kernel.gone ? "" : "Starting Python on your machine …";
      await ready();
      for (const [place, state] of chosen.entries()) {
        said.textContent = `Running cell ${place + 1} of ${chosen.length} on your machine …`;
        if (!(await execute(state))) {
          said.textContent = "A cell failed; what it said stands below it.";
          return;
        }
      }
      said.textContent = "Measured on your machine, just now.";
    } catch (error) {
      said.textContent = `That did not work: ${error.message}. Is the server still running?`;
    } finally {
      busy = false;
      button.textContent = name;
      document.body.classList.remove("sl-busy");
    }
  };

  const button = (text, label, choose) => {
    const made = element("button", { type: "button", className: "sl-run", textContent: text });
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", () => run(choose(), made));
    return made;
  };

  // An experiment is a section.  Its cells need what the page's first cell and other imports brought, and nothing
  // of other experiments.
  const begun = (chosen) => {
    const before = states.slice(0, states.indexOf(chosen[0])).filter((state) => !state.fresh && /^(from|import) /m.test(state.code));
    return [...before, ...chosen];
  };

  const tools = document.querySelector(".sl-tools");
  tools.prepend(button("Run on this machine", "Run the whole page on this machine", () => states));
  const groups = new Map();
  for (const state of states) {
    const place = state.cell.closest("section:has(> h2)");
    if (place) groups.set(place, [...(groups.get(place) ?? []), state]);
  }
  for (const [place, chosen] of groups) {
    const heading = place.querySelector(":scope > h2");
    const name = heading.firstChild.textContent.trim();
    const holder = element("p", { className: "sl-section" }, button("Run on this machine", `Run on this machine: ${name}`, () => begun(chosen)));
    heading.after(holder);
  }
  for (const state of states) {
    const one = button("Run", `Run this cell`, () => begun([state]));
    one.classList.add("sl-cell");
    state.cell.querySelector(".cell_input").prepend(one);
  }
})();
