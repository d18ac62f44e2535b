
"use strict";
// Everything that comes with the data is set as text: names and messages are other people's.
const EVERY = 5000, ROWS = 200;
const at = id => document.getElementById(id);
const make = (name, text, className) => {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = String(text);
  if (className) element.className = className;
  return element;
};
const age = (then, now) => {
  const seconds = Math.max(0, Math.floor((now - Date.parse(then)) / 1000));
  if (seconds < 120) return seconds + "s";
  if (seconds < 10800) return Math.floor(seconds / 60) + "m";
  if (seconds < 172800) return Math.floor(seconds / 3600) + "h";
  return Math.floor(seconds / 86400) + "d";
};
const count = (number, word) => number + " " + word + (number === 1 ? "" : "s");
let data = null, received = 0, all = false;

// A cell is text, [text, class], or an element.
const cell = content => {
  const td = make("td");
  if (content instanceof Node) td.append(content);
  else if (Array.isArray(content)) { td.textContent = content[0]; td.className = content[1]; }
  else td.textContent = content ?? "";
  return td;
};
const table = (id, headings, rows) => {
  const head = make("thead"), body = make("tbody"), line = make("tr");
  for (const heading of headings) { const th = make("th", heading); th.scope = "col"; line.append(th); }
  head.append(line);
  for (const row of rows) { const tr = make("tr"); tr.append(...row.map(cell)); body.append(tr); }
  at(id).replaceChildren(head, body);
};
const facts = now => {
  const { services, addresses, routers, agents, controller } = data;
  const waiting = Object.entries(services.waiting).map(([reason, count]) => count + " " + reason).join(", ");
  const versions = Object.entries(agents.versions).map(([version, count]) => version + " on " + count).join(", ");
  const lines = [
    ["Services", services.served + " of " + services.total + " served", waiting],
    ["Addresses", addresses.announced + " of " + addresses.total + " announced", addresses.quarantined ? addresses.quarantined + " in quarantine" : ""],
    ["Virtual routers", routers.active + " of " + routers.total + " have an Active node", ""],
    ["Agents", agents.reported + " of " + agents.nodes + " nodes have reported", versions],
    ["Controller", controller ? controller.leader.split("_")[0] : "none is known to work", controller && controller.since ? "leads since " + age(controller.since, now) : ""],
  ];
  at("facts").replaceChildren(...lines.map(([name, value, more]) => {
    const box = make("div"), dd = make("dd", value);
    if (more) dd.append(make("small", more));
    box.append(make("dt", name), dd);
    return box;
  }));
};
const problems = () => {
  const { problems } = data, shown = problems.slice(0, ROWS);
  const errors = problems.filter(one => one.severity === "error").length;
  at("n-problems").textContent = problems.length ? count(errors, "error") + ", " + count(problems.length - errors, "warning") : "";
  const items = shown.map(one => {
    const item = make("li", undefined, one.severity === "error" ? "error" : "warning"), first = make("p");
    first.append(make("strong", one.severity), " " + one.kind + " " + one.name + " " + one.reason + ": " + one.message);
    item.append(first, make("p", "do: " + one.remedy, "do"));
    return item;
  });
  if (!problems.length) items.push(make("li", "Nothing is wrong.", "good"));
  if (problems.length > shown.length) items.push(make("li", "and " + (problems.length - shown.length) + " more: windlass status -o wide"));
  at("problems").replaceChildren(...items);
};
const fill = counts => {
  if (!counts || counts.total <= 0) return "";
  const used = counts.total - Math.min(counts.available, counts.total), box = make("span"), bar = make("meter");
  bar.max = counts.total; bar.value = used; bar.high = counts.total * .9; bar.optimum = 0;
  box.append(bar, " " + Math.ceil(used * 100 / counts.total) + "%, " + counts.available + " of " + counts.total + " left");
  return box;
};
const pools = () => table("pools", ["Pool", "IPv4", "IPv6", "Ready"], data.pools.map(one =>
  [one.name, fill(one.ipv4), fill(one.ipv6), one.disabled ? "disabled" : one.ready === "False" ? [one.reason, "bad"] : one.reason]));
const nodes = () => table("nodes", ["Node", "Status", "Addresses", "Active in", "Agent", "Fails"], data.nodes.map(one => [
  one.name, [one.ready + (one.schedulable ? "" : ", unschedulable") + (one.drained ? ", drained" : ""), one.ready === "Ready" ? "good" : "bad"], one.addresses,
  count(one.activeRouters, "router"), one.agentVersion ?? ["none", "bad"], [one.failedChecks.join("; "), "bad"]]));
const moves = now => {
  const buckets = new Array(12).fill(0);
  for (const one of data.moves) {
    const bucket = 11 - Math.floor((now - Date.parse(one.time)) / 300000);
    if (bucket >= 0 && bucket < 12) buckets[bucket] += 1;
  }
  const most = Math.max(1, ...buckets);
  at("spark").replaceChildren(...buckets.map(count => make("i", undefined, "h" + Math.ceil(count * 10 / most))));
  at("n-moves").textContent = data.moves.length ? String(data.moves.length) : "none";
  at("spark").hidden = !data.moves.length;
  table("moves", ["When", "Virtual router", "To", "Addresses"], data.moves.slice(0, ROWS).map(one =>
    [age(one.time, now) + " ago", one.virtualRouter, one.node, one.addresses + (one.addresses === 1 ? " address" : " addresses")]));
};
const vips = now => {
  const words = at("filter").value.toLowerCase().split(/\s+/).filter(word => word);
  const text = one => [one.address, ...one.services, one.pool, one.node, ...one.servers, one.reason].join(" ").toLowerCase();
  const found = data.vips.filter(one => !words.length || words.every(word => text(one).includes(word)));
  const shown = all ? found : found.slice(0, ROWS);
  at("n-vips").textContent = found.length === data.vips.length ? String(found.length) : found.length + " of " + data.vips.length;
  table("vips", ["Address", "Services", "Pool", "Node", "Servers", "State", "Since"], shown.map(one => [
    one.address, one.services.join(", "), one.pool, one.node ?? "", one.servers.length || "", [one.reason ?? "", one.announced ? "good" : "bad"],
    one.since ? age(one.since, now) : ""]));
  if (found.length > shown.length) {
    const line = make("tr"), td = make("td"), more = make("button", "show all " + found.length);
    td.colSpan = 7; more.type = "button";
    more.addEventListener("click", () => { all = true; vips(now); });
    td.append(more); line.append(td); at("vips").tBodies[0].append(line);
  }
};
const draw = () => {
  const now = Date.parse(data.time);
  facts(now); problems(); pools(); nodes(); moves(now); vips(now);
};
const fault = text => { at("fault").hidden = !text; at("fault").textContent = text; };
const asOf = () => {
  if (!data) return;
  const since = Math.round((performance.now() - received) / 1000);
  at("asof").textContent = "as of " + data.time.replace("T", " ").replace(/\.\d+/, "") + (since > 15 ? ", " + since + " s ago" : "");
  at("asof").className = since > 15 ? "old" : "";
};
const refresh = async () => {
  const began = performance.now();
  try {
    // Not relative: the page's own address may have a user name and password in it.
    const answer = await fetch(location.origin + "/status.json", { cache: "no-store", credentials: "same-origin" });
    const text = await answer.text();
    if (!answer.ok) {
      let message = text;
      try { message = JSON.parse(text).message ?? text; } catch { }
      throw new Error(answer.status + ": " + message);
    }
    data = JSON.parse(text);
    received = performance.now();
    fault("");
    draw();
  } catch (error) {
    fault("No new data: " + error.message);
  }
  asOf();
  // What takes long is asked for less often.
  setTimeout(refresh, Math.max(EVERY, 10 * (performance.now() - began)));
};
at("filter").addEventListener("input", () => { if (data) vips(Date.parse(data.time)); });
setInterval(asOf, 1000);
refresh();
