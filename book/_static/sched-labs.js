/* What a page can do beyond being read, and what it knows of a server behind it.

   The reader's own Jupyter server says who it is with a cookie that only its pages get; a page from anywhere else
   asks no one anything. */
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

  const ask = async (method, what, body) => {
    const answer = await fetch(`${server}sched-labs/${what}`, {
      method,
      body: body && JSON.stringify(body),
      headers: { "Content-Type": "application/json", "X-XSRFToken": cookie("_xsrf") || "" },
    });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.message || `the server answered ${answer.status}`);
    return said;
  };

  // Which page this is: `chapter` where it is (part of) a notebook, `cut` where it is one experiment of it.
  const page = (() => {
    const root = new URL(document.documentElement.dataset.content_root || "./", location.href).pathname;
    const [room, chapter, part] = location.pathname.slice(root.length).replace(/\.html$/, "").split("/");
    return room === "notebooks" ? { chapter, cut: part !== undefined } : { chapter: null, cut: false };
  })();

  const offerLab = () => {
    if (page.chapter === null || !document.querySelector(".bd-article h1")) return;
    const link = document.createElement("a");
    link.className = "sl-open";
    link.href = `${server}lab/tree/notebooks/${encodeURIComponent(page.chapter)}.md`;
    link.textContent = "Open in JupyterLab";
    tools().append(link);
  };

  // How far the reader is with the labs, in the margin and on a lab's own page: only the reader's server knows.
  const element = (tag, className, ...children) => {
    const made = Object.assign(document.createElement(tag), { className });
    made.append(...children);
    return made;
  };

  // The row of buttons under a page's title.
  const tools = () => {
    const title = document.querySelector(".bd-article h1");
    const there = document.querySelector(".bd-article .sl-tools") ?? element("p", "sl-tools");
    if (!there.isConnected) title?.after(there);
    return there;
  };

  const day = (time) => String(time).slice(0, 10);

  const standing = (lab) => {
    if (lab.passed_at) return lab.revealed_at && lab.revealed_at <= lab.passed_at ? "passed, solution seen" : "passed";
    if (lab.revealed_at) return "solution seen";
    if (lab.checks) return "not yet";
    return lab.started_at ? "started" : "";
  };

  const showProgress = async () => {
    const labs = await ask("GET", "progress").catch(() => []);
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

  // The key has done its work once the page is there: it stays out of bookmarks, history and screen shares.
  const forgetKey = () => {
    const address = new URL(location.href);
    if (!address.searchParams.has("token")) return;
    address.searchParams.delete("token");
    history.replaceState(history.state, "", address);
  };

  const begin = () => {
    forgetKey();
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
  };

  window.schedLabs = { server, cookie, ask, element, page, tools }; // for the scripts that are loaded after this one

  begin();
})();
