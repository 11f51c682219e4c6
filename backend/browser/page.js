// What the agent's hands and eyes need inside a document. It runs in an isolated
// world: it shares the page's elements, and none of the page's variables. secrets
// knows which fields are not to be told of.
(() => {
	const numbers = new WeakMap(); // element → number, for as long as the element lives
	const byNumber = new Map(); // number → WeakRef of the element

	const interactive = [
		'a[href]', 'area[href]', 'button', 'input:not([type=hidden])', 'select', 'textarea', 'summary',
		'[contenteditable=""]', '[contenteditable=true]', '[contenteditable=plaintext-only]', '[onclick]',
		'[tabindex]:not([tabindex^="-"])', 'audio[controls]', 'video[controls]',
		...['button', 'link', 'checkbox', 'radio', 'switch', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio',
			'option', 'combobox', 'textbox', 'searchbox', 'slider', 'spinbutton', 'treeitem', 'gridcell'].map(r => `[role=${r}]`),
	].join(',');

	const clean = (s, max) => {
		s = (s ?? '').replace(/\s+/g, ' ').trim();
		return s.length > max ? s.slice(0, max) + '…' : s;
	};
	// told is an address without the name and the password in it: those that a page was
	// opened with are in its relative links too, and nobody's to read.
	const told = address => {
		if (!/^\w+:\/\/[^/?#]*@/.test(address)) return address;
		try {
			const u = new URL(address);
			u.username = u.password = '';
			return u.href;
		} catch {
			return '';
		}
	};
	const parentOf = e => e.assignedSlot ?? e.parentElement ?? (e.getRootNode() instanceof ShadowRoot ? e.getRootNode().host : null);
	const contains = (outer, inner) => {
		for (let e = inner; e; e = parentOf(e)) if (e === outer) return true;
		return false;
	};
	// walk visits elements in document order, open shadow roots included.
	const walk = function* (root) {
		for (const e of root.children ?? []) {
			yield e;
			if (e.shadowRoot) yield* walk(e.shadowRoot);
			yield* walk(e);
		}
	};
	const shown = e => {
		const s = getComputedStyle(e);
		return s.visibility === 'visible' && s.display !== 'none';
	};
	// boxOf is the largest piece of an element, in the viewport's CSS pixels.
	const boxOf = e => {
		let best = null;
		for (const r of e.getClientRects())
			if (r.width >= 1 && r.height >= 1 && (!best || r.width * r.height > best.width * best.height)) best = r;
		return best;
	};
	const labelOf = e => e.labels?.length ? e.labels[0] : e.closest?.('label');
	const nameOf = e => {
		const ref = e.getAttribute('aria-labelledby');
		if (ref) {
			const text = ref.split(/\s+/).map(id => e.getRootNode().getElementById?.(id)?.textContent ?? '').join(' ');
			if (text.trim()) return clean(text, 120);
		}
		const own = e.getAttribute('aria-label');
		if (own?.trim()) return clean(own, 120);
		const tag = e.localName;
		if (tag === 'input' || tag === 'select' || tag === 'textarea') {
			if (['button', 'submit', 'reset', 'image'].includes(e.type) && !secret(e)) return clean(e.value || e.alt || e.title || e.type, 120);
			const label = labelOf(e);
			const text = label ? [...label.childNodes].filter(n => n !== e && n.localName !== 'select' && n.localName !== 'textarea').map(n => n.innerText ?? n.textContent).join(' ') : '';
			return clean(text || e.placeholder || e.title || e.name || '', 120);
		}
		return clean(e.innerText || e.querySelector?.('img[alt]')?.alt || e.querySelector?.('svg title')?.textContent || e.title || e.getAttribute('alt') || '', 120);
	};
	const describe = e => {
		const id = e.id ? '#' + e.id : '';
		const kind = typeof e.className === 'string' && e.className.trim() ? '.' + e.className.trim().split(/\s+/)[0] : '';
		const field = ['input', 'select', 'textarea'].includes(e.localName);
		const text = clean(field ? nameOf(e) : e.innerText ?? '', 40);
		return `<${e.localName}${id || kind}>` + (text ? ` "${text}"` : '');
	};
	// secret tells of fields whose content is nobody's to tell, also while a page
	// shows it in the clear.
	const secret = e => secrets.is(e);
	const facts = (e, box) => {
		const f = {tag: e.localName, name: nameOf(e)};
		const role = e.getAttribute('role');
		if (role) f.role = clean(role, 30);
		if (e.localName === 'a' || e.localName === 'area') f.href = clean(told(e.href?.baseVal ?? e.href), 300);
		if (e.localName === 'input') {
			f.type = e.type;
			if (e.type === 'checkbox' || e.type === 'radio') f.checked = e.checked;
			else if (secret(e)) f.secret = e.value !== '';
			else if (e.type === 'file') f.value = clean([...e.files].map(x => x.name).join(', '), 100);
			else if (!['button', 'submit', 'reset', 'image'].includes(e.type)) f.value = clean(e.value, 100);
			if (e.placeholder && f.name !== clean(e.placeholder, 120)) f.hint = clean(e.placeholder, 60);
		} else if (e.localName === 'textarea') {
			if (secret(e)) f.secret = e.value !== '';
			else f.value = clean(e.value, 100);
		} else if (e.localName === 'select') {
			f.value = clean([...e.selectedOptions].map(o => o.label).join(', '), 100);
			f.options = [...e.options].slice(0, 20).map(o => clean(o.label, 40));
			f.more = Math.max(0, e.options.length - 20);
		} else if (e.isContentEditable) {
			f.editable = true;
		}
		const checked = e.getAttribute('aria-checked') ?? e.getAttribute('aria-selected') ?? e.getAttribute('aria-pressed');
		if (checked === 'true') f.checked = true;
		if (e.getAttribute('aria-expanded') === 'true' || (e.localName === 'summary' && e.parentElement?.open)) f.expanded = true;
		if (e.disabled || e.getAttribute('aria-disabled') === 'true') f.disabled = true;
		if (e.readOnly) f.readonly = true;
		if (box.bottom <= 0 || box.right <= 0 || box.top >= innerHeight || box.left >= innerWidth) f.off = true;
		return f;
	};

	// look numbers what can be acted on. An element keeps its number; new ones get
	// the next that nobody has had.
	const look = (next, max) => {
		secrets.look();
		const found = [];
		let more = 0, seen = 0;
		for (const e of walk(document)) {
			seen++;
			let is = e.matches(interactive);
			if (!is && seen < 5000 && e.childElementCount < 4 && getComputedStyle(e).cursor === 'pointer') {
				const up = parentOf(e);
				is = !(up && getComputedStyle(up).cursor === 'pointer') && !e.closest(interactive);
			}
			if (!is || !shown(e)) continue;
			let box = boxOf(e);
			if (!box && e.localName === 'input') { const label = labelOf(e); box = label && boxOf(label); }
			if (!box) continue;
			if (found.length >= max) { more++; continue; }
			let n = numbers.get(e);
			if (!n) {
				n = next++;
				numbers.set(e, n);
				byNumber.set(n, new WeakRef(e));
			}
			found.push({n, ...facts(e, box)});
		}
		const root = document.scrollingElement ?? document.documentElement;
		return {
			elements: found, next, more, title: clean(document.title, 200), url: location.href,
			scroll: {x: Math.round(scrollX), y: Math.round(scrollY), width: root?.scrollWidth ?? 0, height: root?.scrollHeight ?? 0},
			view: {width: innerWidth, height: innerHeight},
		};
	};

	// find returns the element that a number or a selector names, or what is wrong.
	const find = ref => {
		if (ref.selector) {
			const hits = [];
			for (const e of walk(document)) if (e.matches(ref.selector)) hits.push(e);
			const best = hits.find(e => boxOf(e) && shown(e)) ?? hits[0];
			return best ? {e: best, hits: hits.length} : {error: 'none'};
		}
		const e = byNumber.get(ref.number)?.deref();
		return e?.isConnected && e.ownerDocument === document ? {e, hits: 1} : {error: 'stale'};
	};

	const tick = () => new Promise(done => {
		const t = setTimeout(done, 40); // a page in the background paints no frame
		requestAnimationFrame(() => { clearTimeout(t); done(); });
	});
	const at = (x, y) => {
		let e = document.elementFromPoint(x, y);
		for (let inner; e?.shadowRoot && (inner = e.shadowRoot.elementFromPoint(x, y)) && inner !== e;) e = inner;
		return e;
	};
	const points = r => [[.5, .5], [.25, .5], [.75, .5], [.5, .25], [.5, .75], [.1, .1], [.9, .9]]
		.map(([fx, fy]) => [r.left + r.width * fx, r.top + r.height * fy]);
	const inView = (x, y) => x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;
	const same = (a, b) => Math.abs(a.left - b.left) < 1 && Math.abs(a.top - b.top) < 1 && Math.abs(a.width - b.width) < 1 && Math.abs(a.height - b.height) < 1;

	// settled is the element's box once it stands still, null when it is not shown.
	const settled = async e => {
		let last = boxOf(e);
		for (let i = 0; i < 50; i++) {
			await tick();
			const now = boxOf(e);
			if (!now || !e.isConnected) return null;
			if (last && same(last, now)) return now;
			last = now;
		}
		return 'moving';
	};
	const centre = e => e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});

	// aim brings an element into view and finds a point of it that a pointer
	// reaches.
	const aim = async ref => {
		const f = find(ref);
		if (f.error) return f;
		let e = f.e;
		if (!boxOf(e) && labelOf(e) && boxOf(labelOf(e))) e = labelOf(e);
		if (!shown(e) || !boxOf(e)) return {error: 'hidden'};
		if (f.e.disabled) return {error: 'disabled'};
		const label = labelOf(f.e);
		const hits = hit => hit && (contains(e, hit) || (label && contains(label, hit)) || (e === label && contains(f.e, hit)));
		let by = null;
		for (let round = 0; round < 2; round++) {
			const first = boxOf(e);
			if (round > 0 || !first || !inView(first.left + first.width / 2, first.top + first.height / 2)) centre(e);
			const box = await settled(e);
			if (box === 'moving') return {error: 'moving'};
			if (!box) return {error: e.isConnected ? 'hidden' : 'stale'};
			by = null;
			for (const [x, y] of points(box)) {
				if (!inView(x, y)) continue;
				const hit = at(x, y);
				if (hits(hit)) return {x, y, box: {x: box.left, y: box.top, width: box.width, height: box.height}, hits: f.hits, what: describe(f.e)};
				by ??= hit;
			}
		}
		return by ? {error: 'covered', by: describe(by), what: describe(f.e)} : {error: 'hidden'};
	};
	// still tells whether a point that was aimed at still reaches the element.
	const still = (ref, x, y) => {
		const f = find(ref);
		const hit = at(x, y), label = f.e && labelOf(f.e);
		return !f.error && !!hit && (contains(f.e, hit) || !!label && contains(label, hit));
	};
	// guard keeps a click from everything but the element: what moves away under the
	// pointer in the last moment is missed, and nothing else is hit. met ends it and
	// tells what happened.
	let guarded = null;
	const guard = ref => {
		met();
		const f = find(ref);
		if (f.error) return;
		const kinds = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click'], label = labelOf(f.e);
		const g = {verdict: '', end: () => { for (const k of kinds) removeEventListener(k, see, true); }};
		const see = e => {
			if (!e.isTrusted) return;
			const hit = e.composedPath()[0];
			if (!g.verdict) g.verdict = hit instanceof Node && (contains(f.e, hit) || (label && contains(label, hit))) ? 'hit' : 'miss';
			if (g.verdict === 'miss') { e.preventDefault(); e.stopImmediatePropagation(); }
		};
		for (const k of kinds) addEventListener(k, see, true);
		setTimeout(g.end, 5000);
		guarded = g;
	};
	const met = () => {
		const g = guarded;
		guarded = null;
		g?.end();
		return g?.verdict ?? '';
	};
	// through maps a point of a frame to the document around it. this is the
	// element that shows the frame.
	const through = async (e, x, y) => {
		const map = () => {
			const r = e.getBoundingClientRect(), s = getComputedStyle(e);
			const sx = e.offsetWidth ? r.width / e.offsetWidth : 1, sy = e.offsetHeight ? r.height / e.offsetHeight : 1;
			return [r.left + (e.clientLeft + parseFloat(s.paddingLeft) + x) * sx, r.top + (e.clientTop + parseFloat(s.paddingTop) + y) * sy];
		};
		let [px, py] = map();
		if (!inView(px, py)) {
			e.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
			[px, py] = map();
			if (!inView(px, py)) scrollBy({left: px - innerWidth / 2, top: py - innerHeight / 2, behavior: 'instant'});
		}
		if (await settled(e) === 'moving') return {error: 'moving'};
		[px, py] = map();
		if (!inView(px, py)) return {error: 'hidden'};
		const hit = at(px, py);
		return hit === e ? {x: px, y: py} : {error: 'covered', by: hit ? describe(hit) : 'nothing'};
	};

	const changed = e => {
		e.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
		e.dispatchEvent(new Event('change', {bubbles: true}));
	};
	// fill makes a field ready to be typed into, its content selected; fields that
	// are not typed into are set.
	const fill = (ref, text) => {
		const f = find(ref);
		if (f.error) return f;
		const e = f.e;
		if (e.disabled) return {error: 'disabled'};
		if (e.readOnly) return {error: 'readonly'};
		if (e.localName === 'select') return {error: 'select'};
		if (!boxOf(e) || !shown(e)) return {error: 'hidden'};
		if (e.localName === 'input' && ['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'].includes(e.type)) {
			e.focus();
			const was = e.value, set = v => Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(e, v);
			set(text);
			if (e.value !== text && !(e.type === 'range' || e.type === 'color')) {
				set(was);
				return {error: 'value', type: e.type};
			}
			changed(e);
			return {done: true};
		}
		const typed = e.localName === 'textarea' || e.isContentEditable ||
			(e.localName === 'input' && !['button', 'submit', 'reset', 'image', 'checkbox', 'radio', 'file'].includes(e.type));
		const inner = typed ? e : e.querySelector?.('input:not([type=hidden]), textarea, [contenteditable]');
		if (!inner) return {error: 'field', what: describe(e)};
		inner.focus();
		if (inner.select) inner.select();
		else getSelection().selectAllChildren(inner);
		return {secret: secret(inner), filled: (inner.value ?? inner.textContent) !== ''};
	};
	const valueOf = ref => {
		const f = find(ref);
		if (f.error || secret(f.e)) return {};
		return {value: f.e.value ?? (f.e.isContentEditable ? f.e.innerText : undefined)};
	};
	// mark tells what an element is and where, for those who look on.
	const mark = ref => {
		const f = find(ref);
		if (f.error) return {};
		const box = boxOf(f.e) ?? (labelOf(f.e) && boxOf(labelOf(f.e)));
		const inner = f.e.querySelector?.('input:not([type=hidden]), textarea, [contenteditable]');
		return {
			what: describe(f.e), secret: secret(f.e) || (!!inner && secret(inner)),
			box: box ? {x: box.left, y: box.top, width: box.width, height: box.height} : null,
		};
	};
	const select = (ref, wanted) => {
		const f = find(ref);
		if (f.error) return f;
		const e = f.e;
		if (e.localName !== 'select') return {error: 'noselect', what: describe(e)};
		if (e.disabled) return {error: 'disabled'};
		if (wanted.length > 1 && !e.multiple) return {error: 'single'};
		const picked = [];
		for (const w of wanted) {
			const o = [...e.options].find(o => o.value === w) ?? [...e.options].find(o => o.label.trim() === w.trim());
			if (!o || o.disabled) return {error: 'option', want: w, options: [...e.options].slice(0, 50).map(o => clean(o.label, 60))};
			picked.push(o);
		}
		e.focus();
		for (const o of e.options) o.selected = picked.includes(o);
		changed(e);
		return {chosen: picked.map(o => clean(o.label, 60))};
	};
	const scroll = (ref, dx, dy, edge) => {
		let e = document.scrollingElement ?? document.documentElement;
		if (ref) {
			const f = find(ref);
			if (f.error) return f;
			if (!edge && !dx && !dy) { centre(f.e); return {y: Math.round(scrollY)}; }
			for (e = f.e; e && !(e.scrollHeight > e.clientHeight + 1 && /auto|scroll|overlay/.test(getComputedStyle(e).overflowY)) && !(e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX));) e = parentOf(e);
			e ??= document.scrollingElement;
		} else if (e.scrollHeight <= innerHeight + 1 && !dx) {
			// The page itself does not scroll: its largest part that does is meant.
			let best = null;
			for (const c of walk(document)) {
				if (c.scrollHeight <= c.clientHeight + 1 || !/auto|scroll|overlay/.test(getComputedStyle(c).overflowY)) continue;
				if (!best || c.clientHeight * c.clientWidth > best.clientHeight * best.clientWidth) best = c;
			}
			e = best ?? e;
		}
		if (edge === 'top') e.scrollTo({top: 0, behavior: 'instant'});
		else if (edge === 'bottom') e.scrollTo({top: e.scrollHeight, behavior: 'instant'});
		else e.scrollBy({left: dx, top: dy, behavior: 'instant'});
		return {y: Math.round(e.scrollTop), height: e.scrollHeight, view: e.clientHeight};
	};
	const has = (selector, text) => {
		if (selector) {
			let found = false;
			for (const e of walk(document)) if (e.matches(selector) && boxOf(e) && shown(e)) { found = true; break; }
			if (!found) return false;
		}
		return !text || (document.body?.innerText ?? '').includes(text);
	};
	const focus = ref => { const f = find(ref); if (f.error) return false; f.e.focus(); return true; };
	const exists = ref => !find(ref).error;
	const pick = ref => find(ref).e ?? null;
	const upload = ref => {
		const f = find(ref);
		if (f.error) return f;
		const e = f.e.localName === 'label' ? f.e.control : f.e;
		return e?.type === 'file' ? {multiple: e.multiple} : {error: 'nofile', what: describe(f.e)};
	};

	// html writes what is shown as plain HTML: shadow roots in their places,
	// addresses absolute, nothing that runs or that only styles.
	const html = max => {
		const skip = new Set(['script', 'style', 'noscript', 'template', 'head', 'link', 'meta', 'iframe', 'object', 'embed', 'svg', 'canvas', 'audio', 'video']);
		const keep = new Set(['a', 'p', 'br', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'table', 'thead', 'tbody', 'tfoot', 'tr', 'td', 'th', 'caption', 'pre', 'code', 'blockquote', 'strong', 'b', 'em', 'i', 'del', 's', 'img', 'div', 'dl', 'dt', 'dd']);
		const block = /^(block|flex|grid|list-item|flow-root|table)/;
		const escape = s => s.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
		const out = [];
		let size = 0, cut = false;
		const put = s => { if (size + s.length > max) { cut = true; return; } size += s.length; out.push(s); };
		const visit = n => {
			if (cut) return;
			if (n.nodeType === Node.TEXT_NODE) { put(escape(n.data)); return; }
			if (n.nodeType !== Node.ELEMENT_NODE) return;
			const tag = n.localName;
			if (skip.has(tag)) return;
			const style = getComputedStyle(n);
			if (style.display === 'none') return;
			const inner = () => {
				if (tag === 'slot') { const given = n.assignedNodes(); for (const c of given.length ? given : n.childNodes) visit(c); return; }
				for (const c of (n.shadowRoot ?? n).childNodes) visit(c);
			};
			if (style.visibility !== 'visible') { if (n.children.length) inner(); return; }
			if (tag === 'input' || tag === 'textarea' || tag === 'select' || tag === 'button') {
				put(' ' + escape(tag === 'button' ? clean(n.innerText, 200) : '') + ' ');
				return;
			}
			const as = keep.has(tag) ? tag : block.test(style.display) ? 'div' : '';
			let attributes = '';
			if (tag === 'a' && n.href) attributes += ` href="${escape(told(String(n.href.baseVal ?? n.href)))}"`;
			if (tag === 'img') {
				if (!n.alt) return;
				attributes += ` alt="${escape(n.alt)}" src="${escape(n.currentSrc.startsWith('data:') ? '' : told(n.currentSrc))}"`;
			}
			for (const a of ['colspan', 'rowspan', 'start']) if (n.hasAttribute(a)) attributes += ` ${a}="${escape(n.getAttribute(a))}"`;
			if (as) put(`<${as}${attributes}>`);
			inner();
			if (as && as !== 'br' && as !== 'hr' && as !== 'img') { size += as.length + 3; out.push(`</${as}>`); }
		};
		if (document.body) visit(document.body);
		return {html: out.join(''), cut, title: clean(document.title, 200)};
	};
	// veil sees to it that what is covered of secrets has been painted so, and bare tells
	// whether one is to be seen all the same.
	const veil = async () => {
		if (!secrets.look()) return;
		await tick();
		await tick();
	};
	const bare = () => secrets.bare();
	return {look, veil, bare, exists, focus, aim, still, guard, met, through, fill, mark, valueOf, select, scroll, has, pick, upload, html};
})()
