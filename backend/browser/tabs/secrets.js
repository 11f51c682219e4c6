// Which fields of a document hold secrets. It runs in our isolated world from the
// document's start: a field that was ever one for a password stays one, whatever the
// page makes of it. What such a field would show in the clear is covered, except
// while a person has control, who may look at what they type.
(globalThis.gloveboxSecrets ??= (() => {
	const property = '-webkit-text-security';
	const most = 500; // fields that are known at once
	const fights = 50; // times that a page may undo a cover
	const marks = new WeakMap(); // field → its mark
	const all = new Set(); // marks; each outlives its field, which a page may replace by another that shows the same
	const roots = new WeakSet(); // that are watched
	const completed = s => /(^|\s)(current-password|new-password|one-time-code|cc-number|cc-csc)$/i.test(s?.trim() ?? '');
	const field = e => e.localName === 'input' || e.localName === 'textarea';
	let revealed = false;

	const cover = m => {
		const e = m.field.deref();
		if (!e) return;
		const covered = e.style.getPropertyValue(property) === 'disc' && e.style.getPropertyPriority(property) === 'important';
		if (!revealed && e.type !== 'password') {
			if (m.was && covered || m.undone > fights) return;
			m.undone++;
			// One that is covered already was so over an earlier connection.
			m.was ??= covered ? ['', ''] : [e.style.getPropertyValue(property), e.style.getPropertyPriority(property)];
			e.style.setProperty(property, 'disc', 'important');
		} else if (m.was) {
			e.style.setProperty(property, ...m.was); // which removes it where it was not set
			if (!e.getAttribute('style')) e.removeAttribute('style');
			m.was = null;
			m.undone = 0;
		}
	};
	const mark = e => {
		let m = marks.get(e);
		if (!m) {
			m = {field: new WeakRef(e), value: '', was: null, undone: 0};
			marks.set(e, m);
			all.add(m);
			if (all.size > most) all.delete(all.values().next().value);
			observer.observe(e, {attributes: true, attributeFilter: ['style']});
		}
		m.value = e.value || m.value;
		cover(m);
	};
	// is tells of a field whether it holds a secret. thorough asks the style too: pages
	// make password fields of their own by it.
	const is = (e, thorough) => {
		if (!field(e)) return false;
		const secret = marks.has(e) || e.type === 'password' || completed(e.getAttribute('autocomplete')) ||
			e.value.length > 3 && [...all].some(m => m.value === e.value) ||
			thorough && !['none', ''].includes(getComputedStyle(e).webkitTextSecurity ?? '');
		if (secret) mark(e);
		return secret;
	};
	const scan = (root, thorough) => {
		if (root instanceof Element) is(root, thorough);
		if (root.shadowRoot) watch(root.shadowRoot, thorough);
		for (const e of root.querySelectorAll('*')) {
			is(e, thorough);
			if (e.shadowRoot) watch(e.shadowRoot, thorough);
		}
	};
	const watch = (root, thorough) => {
		if (!roots.has(root)) {
			roots.add(root);
			observer.observe(root, {subtree: true, childList: true, attributes: true, attributeFilter: ['type', 'autocomplete'], attributeOldValue: true});
		} else if (!thorough) return;
		scan(root, thorough);
	};
	const observer = new MutationObserver(records => {
		for (const r of records) {
			if (r.type === 'childList') {
				for (const n of r.addedNodes) if (n instanceof Element) scan(n);
			} else if (r.attributeName === 'style') {
				if (marks.has(r.target)) cover(marks.get(r.target));
			} else if (field(r.target)) {
				if (r.attributeName === 'type' ? r.oldValue?.toLowerCase() === 'password' : completed(r.oldValue)) mark(r.target);
				else is(r.target);
			}
		}
	});
	// What is done in a shadow root shows it before anything comes of it.
	const done = event => {
		const path = event.composedPath();
		for (const n of path) if (n instanceof ShadowRoot) watch(n);
		if (path[0] instanceof Element) is(path[0], true);
	};
	const reveal = yes => {
		revealed = yes;
		for (const m of all) cover(m);
	};
	const hide = () => reveal(false);
	const listen = () => {
		for (const kind of ['pointerdown', 'focusin', 'keydown', 'beforeinput', 'input', 'change']) addEventListener(kind, done, true);
		addEventListener('pagehide', hide); // it may come back when nobody has control
	};
	listen();
	watch(document);
	return {
		is: e => is(e, true), reveal,
		// look finds what nothing told of, and tells whether anything is covered.
		look: () => {
			listen(); // document.open() takes them away
			watch(document, true);
			return [...all].some(m => m.was && m.field.deref()?.isConnected);
		},
		// bare tells whether a secret is to be seen in spite of it.
		bare: () => [...all].some(m => {
			const e = m.field.deref();
			return e?.isConnected && e.value && e.type !== 'password' && getComputedStyle(e).webkitTextSecurity === 'none';
		}),
		values: () => [...all].map(m => m.value).filter(v => v),
	};
})())
