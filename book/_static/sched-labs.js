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

  const ask = async (method, body) => {
    const answer = await fetch(server + "sched-labs/predictions", {
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
    stories();
    scrollable();
    addEventListener("resize", scrollable);
    if (server !== null) offerLab();
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
