// The servers of the cluster as this one sees them, who leads what, and who is behind.

import { lagOf, replicaTable, trouble } from "./copies.js";
import { h } from "./dom.js";
import { bytes, count, plural, short } from "./format.js";
import { badge, empty, head, longTable, plainTable, problem, search } from "./widgets.js";

export function page(app) {
  const state = { varz: null, routes: null, leafs: [], meta: null, error: null, filter: "", list: { sort: "Stream" } };
  app.every(2000, async () => {
    try {
      const [varz, routez, leafz, jsz] = await Promise.all(["varz", "routez", "leafz", "jsz"].map(async (name) => {
        const answer = await fetch(`../${name}`);
        if (!answer.ok) throw new Error(`/${name} answers ${answer.status}`);
        return answer.json();
      }));
      Object.assign(state, { varz, routes: routez.routes || [], leafs: leafz.leafs || [], meta: jsz.meta_cluster, error: null });
      if (state.meta) await app.catalogue.refresh();
    } catch (error) {
      state.error = error;
    }
    app.redraw();
  });
  return { title: "Cluster", view: () => view(app, state) };
}

function view(app, state) {
  const { varz, routes, leafs, meta, error } = state;
  const nodes = new Map();
  for (const route of routes || []) {
    const node = nodes.get(route.remote_id) || { name: route.remote_name || route.remote_id, ip: route.ip, port: route.port, routes: 0, in: 0, out: 0, bytes: 0, pending: 0, rtt: route.rtt, uptime: route.uptime };
    node.routes++;
    node.in += route.in_msgs || 0;
    node.out += route.out_msgs || 0;
    node.bytes += (route.in_bytes || 0) + (route.out_bytes || 0);
    node.pending += route.pending_size || 0;
    nodes.set(route.remote_id, node);
  }
  const wanted = varz?.cluster?.urls?.length || 0;
  const rows = [...nodes].sort(([, one], [, other]) => (one.name < other.name ? -1 : 1)).map(([id, node]) =>
    Object.assign([h("strong", {}, node.name), `${node.ip}:${node.port}`, count(node.routes), node.rtt || "–", short(node.in), short(node.out), bytes(node.bytes), bytes(node.pending), node.uptime || ""], { key: id }));
  if (varz) rows.unshift(Object.assign([[h("strong", {}, varz.server_name), badge("this one", "ok")], `${varz.host}:${varz.port}`, "", "", short(varz.in_msgs), short(varz.out_msgs), bytes(varz.in_bytes + varz.out_bytes), "", varz.uptime], { key: varz.server_id }));
  return [
    head(["Cluster ", h("span", { class: "note" }, varz?.cluster?.name || "")], varz && h("span", { class: "note" }, `${plural(nodes.size + 1, "server")}${wanted ? `, ${plural(wanted, "route")} configured` : ""}`)),
    problem(error),
    varz && wanted > 0 && nodes.size === 0 && h("p", { class: "notice bad", role: "alert" }, `No other server is there, though routes to ${varz.cluster.urls.join(", ")} are configured.`),
    varz ? plainTable([["Server"], ["Address"], ["Routes", "number wide"], ["Round trip", "number"], ["Messages in", "number wide"], ["Messages out", "number wide"], ["Bytes", "number wide"], ["Waiting", "number wide"], ["Up", "number"]], rows) : !error && empty("Reading …"),
    meta && metaGroup(meta, varz.server_name),
    meta && streams(app, state),
    leafs.length > 0 && h("section", { class: "leafs" }, h("h2", {}, "Leaf nodes"), plainTable([["Server"], ["Account"], ["Address", "wide"], ["Round trip", "number"], ["Messages in", "number wide"], ["Messages out", "number wide"], ["Subscriptions", "number wide"]],
      leafs.map((leaf, at) => Object.assign([h("strong", {}, leaf.name || leaf.id || "–"), leaf.account, `${leaf.ip}:${leaf.port}`, leaf.rtt || "–", short(leaf.in_msgs), short(leaf.out_msgs), count(leaf.subscriptions)], { key: `${leaf.name} ${leaf.account} ${at}` })))),
  ];
}

/** Who decides where streams are kept. Each server names the others; only the leader knows how far they are. */
function metaGroup(meta, here) {
  const own = here === meta.leader ? [] : [{ name: here, current: true, lag: null }];
  return h("section", { class: "meta" }, h("h2", {}, "JetStream"),
    meta.replicas?.length ? replicaTable({ ...meta, replicas: [...own, ...meta.replicas] }) : meta.leader
      ? h("p", {}, h("strong", {}, meta.leader), ` decides where streams are kept, among ${plural(meta.cluster_size || 0, "server")}.`)
      : h("p", { class: "notice bad", role: "alert" }, "Nobody decides where streams are kept just now: a majority of the servers is missing."));
}

function troubleOf(app, { config, cluster }) {
  const what = trouble(cluster, app.catalogue.rates.get(config.name));
  return what && badge(what, "warn");
}

/** Streams that have copies: who leads each, and who is behind. */
function streams(app, state) {
  const words = state.filter.toLowerCase();
  const name = ({ config }) => config.name;
  const items = app.catalogue.streams.filter(({ config, cluster }) => cluster?.replicas?.length && `${config.name} ${cluster.leader}`.toLowerCase().includes(words));
  const columns = [
    { name: "Stream", class: "name", sort: name, cell: (info) => [h("strong", {}, name(info)), troubleOf(app, info)] },
    { name: "Leader", class: "subject", sort: ({ cluster }) => cluster.leader || "", cell: ({ cluster }) => cluster.leader || "–" },
    { name: "Others", class: "wide", cell: ({ cluster }) => cluster.replicas.map((each) => each.name).join(", ") },
    { name: "Entries behind", class: "number", falling: true, sort: ({ cluster }) => lagOf(cluster), cell: ({ cluster }) => count(lagOf(cluster)) },
  ];
  return h("section", { class: "copied" },
    h("div", { class: "head" }, h("h2", {}, "Streams with copies"), search(app, state, "Filter streams")), problem(app.catalogue.error),
    longTable(app, state.list, { columns, items, key: name, label: "Streams with copies", className: "copied-table", link: (info) => `#/stream/${encodeURIComponent(name(info))}`, empty: "No stream of this account has copies." }));
}
