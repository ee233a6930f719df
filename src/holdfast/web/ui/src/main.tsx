import { render } from "preact";
import { App } from "./app";
import { begin } from "./lib/live";
import { follow } from "./lib/router";

document.addEventListener("click", follow);
begin();
render(<App />, document.getElementById("app") as HTMLElement);
