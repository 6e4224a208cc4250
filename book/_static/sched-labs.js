/* What a page can do beyond being read.

   <form class="predict" data-question="direct.pipe" data-unit="ns">
     <label for="...">question</label> <input type="number" ...> <button>...</button> <output></output>
   </form>

   A prediction is kept in this browser, and by the reader's own Jupyter server where that serves the page.
   That server says who it is with a cookie that only its pages get; a page from anywhere else asks no one anything. */
"use strict";

(() => {
  const cookie = (name) => {
    const found = document.cookie.split("; ").find((part) => part.startsWith(name + "="));
    return found === undefined ? null : found.slice(name.length + 1);
  };

  // Where the reader's server keeps its own addresses ("/" by default), or null on a page that stands alone.
  const server = (() => {
    const base = cookie("sched-labs");
    if (base === null) return null;
    const path = decodeURIComponent(base);
    return location.pathname.startsWith(path + "book/") ? path : null;
  })();

  const ask = async (method, body, what = "predictions") => {
    const answer = await fetch(`${server}sched-labs/${what}`, {
      method,
      body: body && JSON.stringify(body),
      headers: { "Content-Type": "application/json", "X-XSRFToken": cookie("_xsrf") || "" },
    });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.message || `the server answered ${answer.status}`);
    return said;
  };

  const key = (question) => "sched-labs.prediction." + question;

  const remembered = (question) => {
    try {
      return JSON.parse(localStorage.getItem(key(question)));
    } catch {
      return null; // storage may be switched off, or hold something else
    }
  };

  const remember = (question, prediction) => {
    try {
      localStorage.setItem(key(question), JSON.stringify(prediction));
      return true;
    } catch {
      return false;
    }
  };

  const say = (form, text, refused = false) => {
    const output = form.querySelector("output");
    output.textContent = text;
    output.classList.toggle("refused", refused);
  };

  const words = ({ value, unit }) => `${Number(value).toLocaleString("en")} ${unit}`;

  const wire = (form, fromServer) => {
    const { question, unit } = form.dataset;
    const input = form.querySelector("input");
    if (!form.querySelector("output")) form.append(document.createElement("output"));
    form.querySelector("output").setAttribute("aria-live", "polite");
    const before = fromServer[question] || remembered(question);
    if (before && input.value === "") {
      input.value = before.value;
      say(form, `You predicted ${words(before)}.`);
    }
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const value = input.valueAsNumber;
      if (!Number.isFinite(value)) return say(form, "Enter a number first.", true);
      const prediction = { value, unit };
      const here = remember(question, prediction);
      if (server === null) {
        return here
          ? say(form, `Kept in this browser: ${words(prediction)}.`)
          : say(form, "This browser keeps nothing for this page; write your prediction down.", true);
      }
      try {
        await ask("POST", { question, value, unit });
        say(form, `Kept: ${words(prediction)}. The next figure that you measure shows it.`);
      } catch (error) {
        say(form, `Kept in this browser only (${error.message}).`, true);
      }
    });
  };

  const offerLab = () => {
    const root = new URL(document.documentElement.dataset.content_root || "./", location.href).pathname;
    const page = location.pathname.slice(root.length).replace(/\.html$/, "");
    const title = document.querySelector(".bd-article h1");
    if (!page.startsWith("notebooks/") || !title) return;
    const tools = document.createElement("p");
    tools.className = "sl-tools";
    const link = document.createElement("a");
    link.className = "sl-open";
    link.href = `${server}lab/tree/${page.split("/").map(encodeURIComponent).join("/")}.md`;
    link.textContent = "Open in JupyterLab";
    tools.append(link);
    title.after(tools);
  };

  // How far the reader is with the labs, in the margin and on a lab's own page: only the reader's server knows.
  const element = (tag, className, ...children) => {
    const made = Object.assign(document.createElement(tag), { className });
    made.append(...children);
    return made;
  };

  const day = (time) => String(time).slice(0, 10);

  const standing = (lab) => {
    if (lab.passed_at) return lab.revealed_at && lab.revealed_at <= lab.passed_at ? "passed, solution seen" : "passed";
    if (lab.revealed_at) return "solution seen";
    if (lab.checks) return "not yet";
    return lab.started_at ? "started" : "";
  };

  const showProgress = async () => {
    const labs = await ask("GET", undefined, "progress").catch(() => []);
    if (labs.length === 0) return;
    const passed = labs.filter((lab) => lab.passed_at).length;
    for (const lab of labs) {
      const word = standing(lab);
      if (!word) continue;
      for (const link of document.querySelectorAll(`.bd-links a[href*="${CSS.escape(lab.lab)}/sheet.html"], .bd-links li.current.active > a[href="#"]`)) {
        if (link.getAttribute("href") === "#" && !location.pathname.endsWith(`/${lab.lab}/sheet.html`)) continue;
        link.append(" ", element("span", lab.passed_at ? "sl-standing sl-passed" : "sl-standing", word));
      }
    }
    const all = element("p", "sl-all", `Labs: ${passed} of ${labs.length} passed`);
    document.querySelector(".sidebar-primary-items__start .bd-links")?.after(all);

    const here = labs.find((lab) => location.pathname.endsWith(`/${lab.lab}/sheet.html`));
    if (!here) return;
    const told = [];
    if (here.started_at) told.push(`You started this lab on ${day(here.started_at)}.`);
    if (here.checks) told.push(here.checks === 1 ? "You checked it once." : `You checked it ${here.checks} times.`);
    if (here.passed_at) told.push(`It passed on ${day(here.passed_at)}.`);
    if (here.revealed_at) told.push(`You looked at the solution on ${day(here.revealed_at)}.`);
    const note = element("p", "sl-note", told.join(" ") || "You have not started this lab.");
    if (here.started_at) {
      const link = element("a", "", "Your files in JupyterLab");
      link.href = `${server}lab/tree/labs/${encodeURIComponent(here.lab)}`;
      note.append(" ", link);
    }
    document.querySelector(".bd-article h1").after(note);
  };

  // What scrolls sideways must be reachable from the keyboard.
  const scrollable = () => {
    for (const box of document.querySelectorAll(".bd-article table, .bd-article pre, .pst-scrollable-table-container, div.cell_output, div.math")) {
      if (box.scrollWidth > box.clientWidth + 1 && !box.querySelector("[tabindex]")) box.tabIndex = 0;
    }
  };

  // A story is a paragraph that is emphasised as a whole (plain Markdown, so that JupyterLab shows it too).
  const stories = () => {
    for (const emphasis of document.querySelectorAll(".bd-article p > em:only-child")) {
      const paragraph = emphasis.parentElement;
      if (paragraph.textContent.trim() === emphasis.textContent.trim()) paragraph.classList.add("story");
    }
  };

  const begin = async () => {
    // The theme leaves the book's name outside of every landmark.
    const side = document.querySelector(".sidebar-primary-items__start");
    if (side) Object.assign(side, { role: "region", ariaLabel: "Book" });
    // ... and the switches that open a part of the contents without a name.
    for (const fold of document.querySelectorAll(".bd-links li > details > summary")) {
      fold.setAttribute("aria-label", `Pages under ${fold.closest("li").querySelector("a").textContent.trim()}`);
    }
    stories();
    scrollable();
    addEventListener("resize", scrollable);
    if (server !== null) {
      offerLab();
      showProgress();
    }
    const forms = document.querySelectorAll("form.predict");
    if (forms.length === 0) return;
    const kept = server === null ? {} : await ask("GET").catch(() => ({}));
    forms.forEach((form) => wire(form, kept));
  };

  // For sched-labs-live.js, which runs cells; `wire` brings forms in new output to life.
  window.schedLabs = {
    server,
    cookie,
    wire: async (place) => {
      const forms = place.querySelectorAll("form.predict");
      if (forms.length === 0) return;
      const kept = await ask("GET").catch(() => ({}));
      forms.forEach((form) => wire(form, kept));
    },
  };

  begin();
})();
