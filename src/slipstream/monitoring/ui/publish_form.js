// A message by hand.

import { h } from "./dom.js";
import { count } from "./format.js";
import { field, openForm, readHeaderLines } from "./widgets.js";

/** `info`: the stream that is meant to store it, if any; `given`: what the fields begin with. */
export function publishForm(app, info, given = {}) {
  const subject = (info?.config.subjects || []).find((each) => !/[*>]/.test(each)) || "";
  const values = { subject, headers: "", payload: "", ...given };
  const dialog = openForm(app, {
    title: info ? `Publish into ${info.config.name}` : "Publish", values, action: "Publish", wide: true,
    body: (typed) => h("div", { class: "form one" },
      field(app, typed, "subject", "Subject", { required: true, autofocus: true, placeholder: (info?.config.subjects || []).join(", ") }),
      field(app, typed, "headers", "Headers", { rows: 2, placeholder: "Name: value" }),
      field(app, typed, "payload", "Payload", { rows: 8, class: "code" })),
    submit: async (typed) => {
      const name = typed.subject.trim();
      if (!name || /\s|[*>]/.test(name)) throw new Error("A message needs a subject without blanks and wildcards.");
      const ack = await app.js.publish(name, typed.payload, readHeaderLines(typed.headers));
      app.toast(`Stored in ${ack.stream} as ${count(ack.seq)}${ack.duplicate ? ", which it was already" : ""}`);
      app.tick(true);
    },
  });
  return dialog;
}
