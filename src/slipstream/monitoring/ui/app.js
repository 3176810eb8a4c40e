// The shell: who is logged in, which page is shown, and what all pages share.

import { h, render } from "./dom.js";
import { Catalogue, JetStream } from "./jetstream.js";
import { Nats } from "./nats.js";
import { button, field, icon, openForm, problem } from "./widgets.js";

// Place, name, key, module, and the name where there is little room.
const PAGES = [
  ["overview", "Overview", "o", () => import("./page_overview.js"), "Overview"],
  ["streams", "Streams", "s", () => import("./page_streams.js"), "Streams"],
  ["kv", "Key-value", "k", () => import("./page_kv.js"), "Keys"],
  ["objects", "Objects", "b", () => import("./page_objects.js"), "Objects"],
  ["dead", "Dead letters", "d", () => import("./page_dead.js"), "Dead"],
  ["connections", "Connections", "c", () => import("./page_connections.js"), "Clients"],
  ["pipeline", "Pipeline", "p", () => import("./page_pipeline.js"), "Pipeline"],
  ["audit", "Audit", "a", () => import("./page_audit.js"), "Audit"],
  ["cluster", "Cluster", "l", () => import("./page_cluster.js"), "Cluster"],
];
// Pages that belong to one of those above.
const INNER = { stream: ["streams", () => import("./page_stream.js")] };
const TOAST_MS = 6000;
const FOUNDED_MS = 1000;

class App {
  constructor() {
    this.root = document.getElementById("app");
    const url = new URL("nats", location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    url.hash = url.search = "";
    this.nats = new Nats(url.href, { changed: (state) => this.stateChanged(state), failed: (text) => this.toast(text, "bad") });
    this.js = new JetStream(this.nats);
    this.catalogue = new Catalogue(this.js, () => this.redraw());
    this.hidesPayloads = stored("hide-payloads") === "yes";
    this.theme = stored("theme") || "auto";
    this.hasPeers = false; // the server is one of a cluster
    this.hasCopies = false; // ... whose streams may have copies
    this.systemAccount = "";
    this.user = null; // what $SYS.REQ.USER.INFO says
    this.page = null;
    this.pageName = "";
    this.dialogs = [];
    this.toasts = [];
    this.failure = null;
    this.loginForm = { kind: "password" };
    this._drawing = false;
    this._timers = [];
    this._learning = 0;
    this._turn = 0;
    this._keys = "";
  }

  start() {
    document.documentElement.dataset.theme = this.theme;
    addEventListener("hashchange", () => this.route());
    addEventListener("keydown", (event) => this.pressed(event));
    addEventListener("visibilitychange", () => !document.hidden && this.tick());
    this.nats.open();
    this.redraw();
  }

  // --- what pages use ---------------------------------------------------------------------------------------------

  redraw() {
    if (this._drawing) return;
    this._drawing = true;
    requestAnimationFrame(() => {
      this._drawing = false;
      render(this.root, this.view());
    });
  }

  go(hash) {
    location.hash = hash;
  }

  /** Call again and again while the page is there, seen and connected; also once, now. */
  every(ms, work) {
    const timer = { work, ms, due: 0, busy: false };
    this._timers.push(timer);
    this.runTimer(timer);
  }

  toast(text, kind = "") {
    const toast = { text, kind, key: Math.random() };
    this.toasts.push(toast);
    if (this.toasts.length > 4) this.toasts.shift();
    setTimeout(() => {
      this.toasts = this.toasts.filter((each) => each !== toast);
      this.redraw();
    }, TOAST_MS);
    this.redraw();
  }

  /** Do something that may fail, and say so. */
  async attempt(work, done = "") {
    try {
      const result = await work();
      if (done) this.toast(done);
      return result;
    } catch (error) {
      this.toast(error.message, "bad");
      return undefined;
    }
  }

  async copy(text) {
    if (!navigator.clipboard) return this.toast("The browser copies only over https, or on this machine.", "bad");
    return this.attempt(() => navigator.clipboard.writeText(text), "Copied");
  }

  openDialog(dialog) {
    this.dialogs.push(dialog);
    this.redraw();
  }

  closeDialog(dialog) {
    this.dialogs = this.dialogs.filter((each) => each !== dialog);
    this.redraw();
  }

  // --- the connection ---------------------------------------------------------------------------------------------

  stateChanged(state) {
    if (state === "open") {
      this.learnUser();
      this.learnServer();
      if (!this.page) this.route();
      this.tick(true);
    }
    this.redraw();
  }

  async learnUser() {
    try {
      this.user = (await this.nats.request("$SYS.REQ.USER.INFO")).json().data;
    } catch {
      this.user = null; // the user may not ask; nothing depends on it
    }
    this.redraw();
  }

  tick(all = false) {
    for (const timer of this._timers) {
      if (all) timer.due = 0;
      this.runTimer(timer);
    }
  }

  async runTimer(timer) {
    if (timer.busy || document.hidden || this.nats.state !== "open" || performance.now() < timer.due) return;
    timer.busy = true;
    try {
      await timer.work();
    } finally {
      timer.busy = false;
      timer.due = performance.now() + timer.ms;
      if (this._timers.includes(timer)) setTimeout(() => this._timers.includes(timer) && this.runTimer(timer), timer.ms + 5);
    }
  }

  // --- places -----------------------------------------------------------------------------------------------------

  async route() {
    if (this.nats.state !== "open" && !this.page) return;
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const [name = "", ...args] = path.split("/").map(decoded);
    const turn = ++this._turn;
    const entry = PAGES.find(([each]) => each === name) || (INNER[name] ? [name, "", "", INNER[name][1]] : PAGES[0]);
    let page;
    try {
      const module = await entry[3]();
      if (turn !== this._turn) return;
      this.leave();
      page = module.page(this, args, new URLSearchParams(query));
    } catch (error) {
      if (turn !== this._turn) return;
      this.failure = error;
      this.redraw();
      return;
    }
    this.failure = null;
    this.page = page;
    page.key = turn;
    this.pageName = INNER[entry[0]] ? INNER[entry[0]][0] : entry[0];
    document.title = `${page.title} – Slipstream`;
    this.redraw();
  }

  leave() {
    this._timers = [];
    this.dialogs = [];
    if (this.page?.leave) this.page.leave();
    this.page = null;
  }

  pressed(event) {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (typing || this.dialogs.length || this.nats.state === "asking") return;
    const keys = this._keys + event.key;
    this._keys = event.key === "g" ? "g" : "";
    const place = PAGES.find(([, , key]) => keys === `g${key}`);
    if (place) this.go(`#/${place[0]}`);
    else if (event.key === "/") {
      event.preventDefault();
      document.querySelector("main .search")?.focus();
    } else if (event.key === "?") this.showKeys();
    else if (event.key === "h") this.togglePayloads();
  }

  showKeys() {
    const keys = [["/", "Search in the page"], ["↑ ↓ Enter", "Move in a list, open"], ["h", "Hide or show payloads"], ["Esc", "Close what is in front"],
      ...PAGES.map(([, label, key]) => [`g ${key}`, label])];
    openForm(this, { title: "Keys", body: () => h("table", { class: "keys" }, h("tbody", {}, keys.map(([key, what]) => h("tr", {}, h("th", {}, h("kbd", {}, key)), h("td", {}, what))))) });
  }

  togglePayloads() {
    this.hidesPayloads = !this.hidesPayloads;
    store("hide-payloads", this.hidesPayloads ? "yes" : "no");
    this.redraw();
  }

  toggleTheme() {
    this.theme = { auto: "dark", dark: "light", light: "auto" }[this.theme];
    document.documentElement.dataset.theme = this.theme;
    store("theme", this.theme);
    this.redraw();
  }

  // --- views ------------------------------------------------------------------------------------------------------

  view() {
    const { state } = this.nats;
    if (state === "asking") return this.loginView();
    if (!this.page && state !== "open") return h("div", { class: "boot" }, state === "waiting" ? "The server does not answer. Trying again …" : "Slipstream");
    return h("div", { class: "shell", key: "shell" }, this.sideView(),
      h("main", { key: "main" }, this.lostView(), this.failure && problem(this.failure), this.page && h("div", { class: `page ${this.page.className || ""}`, key: this.page.key }, this.page.view())),
      this.dialogs.map((dialog) => dialog.view()),
      h("div", { class: "toasts", role: "status", key: "toasts" }, this.toasts.map((toast) => h("p", { key: toast.key, class: toast.kind }, toast.text))));
  }

  lostView() {
    if (this.nats.state === "open") return null;
    return h("p", { class: "notice warn lost", role: "status", key: "lost" }, "The connection was lost; the page shows what it knew. ", button("Try now", () => this.nats.retry()));
  }

  sideView() {
    const { info } = this.nats;
    const who = this.user?.user_name || this.user?.user || "";
    return h("aside", { class: "side", key: "side" },
      h("a", { class: "brand", href: "#/overview" }, h("span", { class: `dot ${this.nats.state}` }), h("span", {}, info.server_name || "Slipstream")),
      h("nav", { "aria-label": "Pages" }, PAGES.filter(([name]) => !this.leftOut(name)).map(([name, label, , , brief]) =>
        h("a", { key: name, href: `#/${name}`, title: label, "aria-label": label, class: name === this.pageName ? "on" : "", "aria-current": name === this.pageName ? "page" : undefined }, icon(name), h("span", {}, label), h("span", { class: "brief" }, brief)))),
      h("div", { class: "tools" },
        button([icon(this.hidesPayloads ? "hidden" : "eye"), h("span", {}, this.hidesPayloads ? "Payloads hidden" : "Payloads shown"), h("span", { class: "brief" }, this.hidesPayloads ? "Hidden" : "Shown")], () => this.togglePayloads(), { title: "Hide or show payloads (h)", "aria-pressed": String(this.hidesPayloads), class: "quiet payload-switch" }),
        button([icon("theme"), h("span", {}, { auto: "Light or dark", dark: "Dark", light: "Light" }[this.theme]), h("span", { class: "brief" }, { auto: "Theme", dark: "Dark", light: "Light" }[this.theme])], () => this.toggleTheme(), { title: "Light, dark or as the system", class: "quiet" }),
        button([icon("help"), h("span", {}, "Keys")], () => this.showKeys(), { title: "Keys (?)", class: "quiet keys-button" }),
        who && button([icon("leave"), h("span", {}, `Log out ${who}`), h("span", { class: "brief" }, "Log out")], () => this.logout(), { title: `Log out ${who}`, class: "quiet logout" })));
  }

  /** A server that is alone has no page about its cluster, and only users of the system account see the audit trail. */
  leftOut(name) {
    if (name === "audit") return !this.systemAccount || this.user?.account !== this.systemAccount;
    return name === "cluster" && !this.hasPeers;
  }

  async learnServer() {
    const varz = await fetch("../varz").then((answer) => answer.json()).catch(() => null);
    this.hasPeers = Boolean(varz?.cluster?.name || varz?.routes || varz?.leafnodes || varz?.leaf?.remotes?.length);
    this.hasCopies = Boolean(varz?.jetstream?.meta);
    this.systemAccount = varz?.system_account || "";
    // The servers of a cluster that was just started have not agreed on anything yet.
    const isFounded = this.hasCopies || !varz?.jetstream?.config || !varz.cluster?.name;
    clearTimeout(this._learning);
    if (!isFounded && this.nats.state === "open") this._learning = setTimeout(() => this.learnServer(), FOUNDED_MS);
    this.redraw();
  }

  logout() {
    this.leave();
    this.user = null;
    this.catalogue = new Catalogue(this.js, () => this.redraw());
    this.nats.logout();
  }

  loginView() {
    const form = this.loginForm;
    const send = (event) => {
      event.preventDefault();
      const { inbox } = form;
      if (form.kind === "password") this.nats.login({ user: form.user, pass: form.pass, inbox });
      else if (form.kind === "token") this.nats.login({ token: form.token, inbox });
      else this.nats.login({ credentials: form.credentials || "", inbox });
      form.pass = form.token = form.credentials = "";
    };
    const kinds = [["password", "User"], ["token", "Token"], ["credentials", "Credentials file"]];
    return h("form", { class: "login", onsubmit: send, key: "login" },
      h("h1", {}, icon("streams"), this.nats.info.server_name || "Slipstream"),
      h("p", { class: "note" }, "You see and do here what this user may. What you type is kept until you close the page."),
      h("span", { class: "choice", role: "group" }, kinds.map(([kind, label]) => h("button", { type: "button", class: form.kind === kind ? "on" : "", "aria-pressed": String(form.kind === kind), onclick: () => {
        form.kind = kind;
        this.redraw();
      } }, label))),
      form.kind === "password" && [field(this, form, "user", "User", { autofocus: true, autocomplete: "username" }), field(this, form, "pass", "Password", { type: "password", autocomplete: "current-password" })],
      form.kind === "token" && field(this, form, "token", "Token", { type: "password" }),
      form.kind === "credentials" && [
        h("div", { class: "field" }, h("label", { for: "creds" }, "File of nsc (.creds), or a seed"), h("input", { id: "creds", type: "file", onchange: async (event) => {
          form.credentials = await event.target.files[0]?.text();
          this.redraw();
        } })),
        field(this, form, "credentials", "or its text", { rows: 4, autocomplete: "off" })],
      h("details", {}, h("summary", {}, "More"), field(this, form, "inbox", "Prefix of inboxes", { placeholder: "_INBOX", note: "If the user may only subscribe to some." })),
      this.nats.reason && h("p", { class: "notice bad", role: "alert" }, this.nats.reason),
      h("button", { type: "submit", class: "primary" }, "Log in"));
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Only how the page looks is stored in the browser, never who somebody is.
function stored(name) {
  try {
    return localStorage.getItem(`slipstream.${name}`);
  } catch {
    return null;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(`slipstream.${name}`, value);
  } catch {
    // The browser keeps nothing: then it is asked again.
  }
}

new App().start();
