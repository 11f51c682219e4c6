import { mount } from "svelte";
import { App } from "./state/app.svelte";
import "./styles/tokens.css";
import "./styles/base.css";
import Root from "./views/Root.svelte";

const target = document.getElementById("app");
if (!target) throw new Error("the page has no #app");
mount(Root, { target, props: { app: new App() } });
