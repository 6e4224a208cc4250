/* The incident room: the dashboard of the incident that runs on the reader's machine, and commands with its names.

   It is asked for every two seconds, and only while the page is in sight. */
"use strict";

(() => {
  const { server, ask, element } = window.schedLabs;
  const place = document.querySelector(".sl-incident");
  if (!place || server === null) return;

  const number = (value, places = 0) => (value === null || value === undefined ? "-" :
    value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }));

  const row = (kind, words) => {
    const made = element("tr", "", ...words.map((word, i) => element(i === 0 || kind === "th" ? "th" : "td", "", word)));
    for (const head of made.querySelectorAll("th")) head.scope = kind === "th" ? "col" : "row";
    return made;
  };
  const table = (heads, rows) => element("div", "pst-scrollable-table-container", element("table", "table",
    element("thead", "", row("th", heads)), element("tbody", "", ...rows.map((words) => row("td", words)))));

  const board = ({ target_ms: target, minutes, now, healthy: well, programs, folder, group, log }) => {
    const pair = (title, key, places, scale = 1) => [title, number(now[key] * scale, places), number(well[key] * scale, places)];
    const time = (title, key) => [title, number(now[key], 1), number(well[key], 1)];
    const each = Object.entries(programs).filter(([role]) => now.programs[role] && well.programs[role])
      .sort(([, a], [, b]) => a.name.localeCompare(b.name));
    const pid = now.programs.service.pid;
    const both = (role, key) => `${number(now.programs[role][key])} (${number(well.programs[role][key])})`;
    const commands = [
      `top -H -p ${pid}`,
      `cat /proc/${pid}/task/*/schedstat`,
      `cat /proc/${pid}/task/*/wchan`,
      `grep -E 'State|ctxt|allowed_list' /proc/${pid}/status`,
      `head ${folder}/etc/*.conf`,
      ...(group ? [`cat ${group}/cpu.stat`] : []),
      "sched-labs incident hint",
    ];
    return [
      element("p", "sl-note", `The alarm went off ${number(minutes, 1)} min ago. The last seconds, and, as "well", a time when all was well.`),
      table(["", "now", "well"], [
        pair("requests, 1/s", "requests_per_s", 1), pair(`in time (${target} ms), %`, "level", 1, 100),
        time("p50, ms", "p50_ms"), time("p99, ms", "p99_ms"), pair("refused, 1/s", "refused_per_s", 1)]),
      table(["requests on their way", "now", "well"], [["outside the service", "outside"], ["waiting inside it", "waiting"],
        ["in work", "in_work"], ["finished, not sent", "not_sent"]]
        .map(([title, key]) => [title, number(now.places[key], 2), number(well.places[key], 2)])),
      table(["program", "PID", "CPU ms/s (well)", "switches/s (well)", "MiB", "what it is"], each.map(([role, one]) =>
        [one.name, String(now.programs[role].pid), both(role, "cpu_ms_per_s"), both(role, "switches_per_s"),
          number(now.programs[role].rss_mib, 1), one.about])),
      element("pre", "", commands.join("\n")),
      ...log.slice(-5).map((line) => element("p", "sl-note", line)),
    ];
  };

  let shown = "";
  const look = async () => {
    if (!document.hidden) {
      const said = await ask("GET", "incident").catch((error) => ({ none: error.message }));
      const text = JSON.stringify(said);
      // What somebody is about to copy stays until the pointer has let go of it.
      const held = getSelection().toString() && place.contains(getSelection().anchorNode);
      if (text !== shown && !held) {
        place.replaceChildren(...(said.none ? [element("p", "sl-note", said.none)] : board(said)));
        shown = text;
      }
    }
    setTimeout(look, 2000);
  };
  look();
})();
