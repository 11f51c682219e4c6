import { createContext } from "svelte";
import type { App } from "./app.svelte";

/** useApp gives a component the App that main.ts made. */
export const [useApp, provideApp] = createContext<App>();
