/** BrowserTab is what a tab of a browser shows. */
export interface BrowserTab {
  number: number;
  target: string;
  url: string;
  title: string;
  active: boolean;
  loading: boolean;
  crashed: boolean;
  failed?: string;
  opener?: number;
}

/** BrowserDialog is a question that a page waits for. */
export interface BrowserDialog {
  kind: string;
  text: string;
  default?: string;
  url: string;
  opened: string;
  until: string;
}

export interface BrowserNotice {
  seq: number;
  at: string;
  kind: string;
  tab?: number;
  text: string;
  url?: string;
}

export interface BrowserControl {
  viewer?: string;
  until?: string;
  look: boolean;
}

/** BrowserView is the browser and who has control. It is always whole; notices are those since the last one. */
export interface BrowserView {
  rev: number;
  lost?: string;
  ended?: string;
  active: number;
  tabs: BrowserTab[] | null;
  dialog?: BrowserDialog | null;
  control: BrowserControl;
  notices?: BrowserNotice[] | null;
}

export interface FrameMeta {
  offset_top: number;
  page_scale_factor: number;
  device_width: number;
  device_height: number;
  scroll_x: number;
  scroll_y: number;
}

/** FrameHead comes before the JPEG of a frame. */
export interface FrameHead {
  seq: number;
  tab: number;
  shown: string;
  at: string;
  meta: FrameMeta;
}

export interface InputPoint {
  id: number;
  x: number;
  y: number;
}

export interface BrowserInput {
  kind: string;
  type: string;
  frame: number;
  width: number;
  height: number;
  x: number;
  y: number;
  dx: number;
  dy: number;
  button: string;
  buttons: number;
  clicks: number;
  modifiers: number;
  points: InputPoint[] | null;
  key: string;
  code: string;
  key_code: number;
  location: number;
  repeat: boolean;
  text: string;
  from: number;
  to: number;
}

export interface BrowserCommand {
  kind: string;
  url: string;
  tab: number;
  accept: boolean;
  text: string;
}

export interface BrowserInfo {
  state: "none" | "stopped" | "starting" | "running" | "stopping";
  observed_at: string;
  source: string;
  error: string;
  version: string;
  program: string;
  sandboxed: boolean;
  unsandboxed: string;
  downloads: string;
  viewers: number;
  control: { holder: string; until?: string | null; look: boolean };
  live: boolean;
}
