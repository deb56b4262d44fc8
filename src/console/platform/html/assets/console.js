/* Conveniences. Every page works without this script. */

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'always' })

/** The same as in domain/form/instant.ts, which a browser cannot load. A test compares the two. */
function relativeTime(atMs, nowMs) {
  const differenceMs = atMs - nowMs
  const count = unitMs => Math.round(Math.abs(differenceMs) / unitMs)
  const format = (amount, unit) => RELATIVE.format(Math.sign(differenceMs) * amount, unit)
  if (count(MINUTE_MS) === 0) return differenceMs <= 0 ? 'just now' : 'in under a minute'
  if (count(MINUTE_MS) < 60) return format(count(MINUTE_MS), 'minute')
  if (count(HOUR_MS) < 24) return format(count(HOUR_MS), 'hour')
  return format(count(DAY_MS), 'day')
}

/** By the console's clock: the local one may be wrong. */
const aheadMs = Number(document.body.dataset.now ?? Date.now()) - Date.now()

const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }
const MINUTE = { ...CLOCK, timeZoneName: 'short' }
/** The others are to the minute. `start` is that of a span of time, and `end` has no day. */
const PRECISIONS = {
  second: { ...MINUTE, second: '2-digit' },
  millisecond: { ...MINUTE, second: '2-digit', fractionalSecondDigits: 3 },
  start: CLOCK,
}
const DAY = { day: 'numeric', month: 'short', year: 'numeric' }

/** In the time zone of the browser, as html.ts writes it in UTC: an hour, and a time to the second, without the date if it is today. */
function localTime(atMs, precision, nowMs) {
  const isToday = new Date(atMs).toDateString() === new Date(nowMs).toDateString()
  const day = precision === 'end' || (isToday && ['hour', 'second'].includes(precision)) ? {} : DAY
  return new Intl.DateTimeFormat('en-GB', { ...day, ...(PRECISIONS[precision] ?? MINUTE) }).format(atMs)
}

const withZone = utc => (utc.endsWith('UTC') ? utc : `${utc} UTC`)

/** Once for each element: its text becomes its tooltip. */
function showLocalTimes() {
  for (const element of document.querySelectorAll('time[data-local]')) {
    const text = localTime(Date.parse(element.dateTime), element.dataset.local, Date.now() + aheadMs)
    if (text !== element.textContent) element.title = withZone(element.textContent)
    element.textContent = text
    delete element.dataset.local
  }
  for (const element of document.querySelectorAll('[data-zone]')) {
    const parts = new Intl.DateTimeFormat('en-GB', MINUTE).formatToParts(Date.parse(element.dataset.zone))
    element.textContent = parts.find(({ type }) => type === 'timeZoneName').value
    delete element.dataset.zone
  }
  for (const text of document.querySelectorAll('.times [data-at]')) showLocalTick(text)
}

/** A time below a chart. Midnight is named by its day, and so is that of UTC, where it has another time here. */
function showLocalTick(text) {
  const at = new Date(text.dataset.at)
  const utc = text.textContent
  const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' }).format(at)
  const time = new Intl.DateTimeFormat('en-GB', CLOCK).format(at)
  const isDay = !utc.includes(':')
  text.textContent = time === '00:00' ? day : isDay ? `${day}, ${time}` : time
  const tooltip = document.createElementNS(text.namespaceURI, 'title')
  tooltip.textContent = withZone(isDay ? `${utc}, 00:00` : utc)
  text.append(tooltip)
  delete text.dataset.at
}

function updateTimes() {
  showLocalTimes()
  for (const element of document.querySelectorAll('time[data-live]')) {
    const text = relativeTime(Date.parse(element.dateTime), Date.now() + aheadMs)
    if (element.textContent !== text) element.textContent = text
  }
}

/** Without clipboard access (plain http), copies by selection. @returns false if it could not */
async function copy(element) {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(element.textContent)
  getSelection().selectAllChildren(element)
  return document.execCommand('copy')
}

const COPIED_MS = 2000

/** A list has many buttons: they share one announcement. */
function setUpCopying() {
  const announcement = document.createElement('p')
  announcement.className = 'hidden'
  announcement.setAttribute('role', 'status')
  document.getElementById('main').append(announcement)
  for (const button of document.querySelectorAll('button[data-copies]')) {
    let timer
    const say = (label, announced) => {
      clearTimeout(timer)
      button.textContent = label
      announcement.textContent = announced
    }
    button.hidden = false
    button.addEventListener('click', async () => {
      say('Copy', '')
      const done = await copy(document.getElementById(button.dataset.copies)).catch(() => false)
      if (done === false) return say('Copy manually', 'Copy manually')
      say('Copied', 'Copied')
      timer = setTimeout(say, COPIED_MS, 'Copy', '')
    })
  }
}

/** Opens confirmation pages as dialogs. */
function setUpDialogs() {
  for (const link of document.querySelectorAll('a[data-opens]')) {
    const dialog = document.getElementById(link.dataset.opens)
    if (dialog === null) continue
    link.setAttribute('role', 'button')
    link.setAttribute('aria-haspopup', 'dialog')
    const open = event => {
      event.preventDefault()
      dialog.showModal()
    }
    link.addEventListener('click', open)
    link.addEventListener('keydown', event => event.key === ' ' && open(event))
    dialog.querySelector('[data-closes]')?.addEventListener('click', event => {
      event.preventDefault()
      dialog.close()
    })
  }
}

/** Entering a date selects its option. */
function setUpChoices() {
  for (const input of document.querySelectorAll('input[data-chooses]')) {
    const choice = document.getElementById(input.dataset.chooses)
    input.addEventListener('input', () => {
      if (input.value !== '') choice.checked = true
    })
    choice.form.addEventListener('change', event => {
      if (event.target.name === choice.name && !choice.checked) input.value = ''
    })
  }
}

/** Closes the menu on Escape or a click elsewhere. */
function setUpMenus() {
  for (const menu of document.querySelectorAll('details.person')) {
    document.addEventListener('click', event => {
      if (!menu.contains(event.target)) menu.open = false
    })
    menu.addEventListener('keydown', event => {
      if (event.key !== 'Escape' || !menu.open) return
      menu.open = false
      menu.querySelector('summary').focus()
    })
  }
}

/** Submits a form once, however often its button is pressed. */
function setUpForms() {
  for (const form of document.querySelectorAll('form[method="post"]')) {
    form.addEventListener('submit', event => {
      if (form.dataset.sent === 'yes') event.preventDefault()
      form.dataset.sent = 'yes'
    })
  }
}

/** Applies a filter that a pointer has chosen. With the keyboard, each step through the choices would load a page. */
function setUpFilters() {
  for (const form of document.querySelectorAll('form[data-submits]')) {
    let usesKeys = false
    form.addEventListener('keydown', () => (usesKeys = true))
    form.addEventListener('pointerdown', () => (usesKeys = false))
    form.addEventListener('change', ({ target }) => {
      if (target.matches('select') && !usesKeys) form.requestSubmit()
    })
  }
}

/** Selects all keys of a page, and says how many are selected. */
function setUpSelecting() {
  const form = document.querySelector('form.selection')
  if (form === null) return
  const boxes = [...form.querySelectorAll('input[name="key"]')]
  const all = form.querySelector('[data-selects]')
  const show = () => {
    const count = boxes.filter(box => box.checked).length
    form.querySelector('[data-selected]').textContent = `${count} selected`
    all.checked = count === boxes.length
    all.indeterminate = count > 0 && !all.checked
  }
  all.closest('label').hidden = false
  all.addEventListener('change', () => {
    for (const box of boxes) box.checked = all.checked
  })
  form.addEventListener('change', show)
  addEventListener('pageshow', show)
  show()
}

/** `/` leads to the search of a page, or from one without a search to the keys. Leaving a form or a secret would lose them. */
function setUpShortcut() {
  const search = document.querySelector('input[type="search"], form[data-digests] input[name="key"]')
  const mayLeave = () =>
    document.querySelector('[data-secret], form[method="post"] :is(input:not([type="hidden"]), textarea)') ===
    null
  addEventListener('keydown', event => {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing
    const isTyping = event.target.closest('input, select, textarea, [contenteditable], dialog') !== null
    if (event.key !== '/' || !isPlain || isTyping) return
    if (search === null && (document.body.dataset.search === undefined || !mayLeave())) return
    event.preventDefault()
    if (search === null) return location.assign(document.body.dataset.search)
    search.focus()
    search.select()
  })
  if (search === null) return
  search.setAttribute('aria-keyshortcuts', '/')
  const hasKeyboard = matchMedia('(hover: hover)').matches
  if (hasKeyboard) search.placeholder = [search.placeholder, 'press /'].filter(text => text !== '').join(', ')
  if (location.hash === `#${search.id}`) search.focus()
}

/** A pasted key without what copying adds to it: the same as `plainPasted` in src/domain/form/text.ts. */
function plainPasted(text) {
  const edges = '"\'`´“”„‟‘’‚‛«»‹›″′,;'
  const isEdge = character => character.trim() === '' || edges.includes(character)
  const withoutEdges = from => {
    let [start, end] = [0, from.length]
    while (start < end && isEdge(from.charAt(start))) start++
    while (end > start && isEdge(from.charAt(end - 1))) end--
    return from.slice(start, end)
  }
  const visible = withoutEdges(text.replace(/\p{Cf}/gu, ''))
  const value = visible.replace(/^(?:authorization["'`]?\s*:\s*["'`]?)?bearer\s+/i, '')
  return withoutEdges(value.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ''))
}

/** Sends the digest of a pasted key in place of the key. Without crypto.subtle (plain http), the key itself is sent. */
function setUpFindingKeys() {
  if (globalThis.crypto?.subtle === undefined) return
  for (const form of document.querySelectorAll('form[data-digests]')) {
    const { key, digest } = form.elements
    form.addEventListener('submit', async event => {
      const text = plainPasted(key.value)
      if (text === '') return
      event.preventDefault()
      key.value = ''
      const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
      digest.value = Array.from(new Uint8Array(bytes), byte => byte.toString(16).padStart(2, '0')).join('')
      form.submit()
    })
  }
}

/** As long as the random part of a key. */
const KEY_LIKE = /[0-9A-Za-z]{54}/
/** As long, and no key: a person, whose id the sign-in provider makes, and a hash, such as a request id or a workspace. */
const NO_KEY = /^(?:\s*person:|[0-9a-f]*$)/

/** Only what is chosen gets into the URL. A pasted key is not sent: it would get into the history and logs, too. */
function setUpSearches() {
  for (const form of document.querySelectorAll('form[method="get"]')) {
    form.addEventListener('formdata', ({ formData }) => {
      for (const [name, text] of [...formData]) if (text === '') formData.delete(name)
    })
    form.addEventListener('submit', event => {
      if (![...new FormData(form).values()].some(text => KEY_LIKE.test(text) && !NO_KEY.test(text))) return
      event.preventDefault()
      form.reset()
      location.assign('/find-key')
    })
  }
}

/** Sends a request of the API reference, and shows what became of it in its place. The key stays in its field. */
function setUpTrying() {
  const form = document.getElementById('try')
  if (form === null) return
  addEventListener('pagehide', () => form.reset())
  form.addEventListener('submit', async event => {
    event.preventDefault()
    const output = document.getElementById(event.submitter.dataset.output)
    if (output.ariaBusy === 'true') return
    output.ariaBusy = 'true'
    const body = new URLSearchParams(new FormData(form, event.submitter))
    const sent = { method: 'POST', body, cache: 'no-store', redirect: 'error' }
    const text = await fetch(form.action, sent)
      .then(response => response.text())
      .catch(() => '')
    const next = new DOMParser().parseFromString(text, 'text/html').getElementById(output.id)
    if (next === null) output.textContent = 'No response from the console. Reload this page and try again.'
    else output.replaceChildren(...next.childNodes)
    output.ariaBusy = 'false'
  })
}

/** Number of sign-outs in this tab. */
const signOuts = () => Number(sessionStorage.getItem('signOuts') ?? 0)
const signOutsBefore = signOuts()

/** Pages from the back/forward cache, which ignores no-store, are reloaded after signing out. */
function setUpSigningOut() {
  document.querySelector('form[action="/sign-out"]')?.addEventListener('submit', () => {
    sessionStorage.setItem('signOuts', String(signOuts() + 1))
  })
}

/** Going back to the answer of a form would be an error of the browser; reloading it would submit the form again. */
function nameSecretPage() {
  const { then } = document.querySelector('[data-secret]')?.dataset ?? {}
  if (then !== undefined) history.replaceState(null, '', then)
}

/** Removes secrets before the page enters the back/forward cache. */
function forgetSecrets() {
  for (const element of document.querySelectorAll('[data-secret]')) {
    const notice = document.createElement('p')
    notice.className = 'notice'
    notice.textContent = 'The secret is no longer shown.'
    element.replaceChildren(notice)
  }
}

/** On a phone, tabs scroll sideways. */
function showCurrentTab() {
  document.querySelector('.top nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
}

const REFRESH_SECONDS = 10
const WATCHED_MS = 5 * MINUTE_MS

/**
 * Shows new counts, or how far a change has come, while they are watched: for some minutes after a sign of the reader, as a request
 * keeps the session open. A part that no longer says so is final.
 */
function setUpRefreshing() {
  const { id, dataset } = document.querySelector('[data-refreshes]') ?? {}
  if (id === undefined) return
  let seenMs = Date.now()
  for (const sign of ['pointermove', 'pointerdown', 'keydown', 'scroll', 'focus']) {
    addEventListener(sign, () => (seenMs = Date.now()), { passive: true })
  }
  const timer = setInterval(
    async () => {
      const part = document.getElementById(id)
      if (part.dataset.refreshes === undefined) return clearInterval(timer)
      const isFilledIn = () =>
        [...part.querySelectorAll('input')].some(input => input.value !== input.defaultValue)
      const isUsed = () =>
        part.contains(document.activeElement) || part.matches(':has(.points > :hover)') || isFilledIn()
      if (document.hidden || Date.now() - seenMs > WATCHED_MS || isUsed()) return
      const response = await fetch(dataset.from ?? location.href, {
        cache: 'no-store',
        redirect: 'error',
      }).catch(() => null)
      if (response?.ok !== true) return
      const page = new DOMParser().parseFromString(await response.text(), 'text/html')
      const next = page.getElementById(id)
      if (next === null || isUsed()) return
      const opened = [...part.querySelectorAll('details')].map(details => details.open)
      for (const [index, details] of next.querySelectorAll('details').entries()) details.open = opened[index]
      part.replaceWith(next)
      updateTimes()
    },
    1000 * (dataset.refreshes || REFRESH_SECONDS),
  )
}

updateTimes()
setInterval(updateTimes, 1000)
setUpRefreshing()
setUpCopying()
setUpDialogs()
setUpChoices()
showCurrentTab()
setUpMenus()
setUpFilters()
setUpSelecting()
setUpShortcut()
setUpForms()
// Goes on with what takes several steps.
document.querySelector('form[data-continues]')?.requestSubmit()
setUpFindingKeys()
setUpSearches()
setUpTrying()
setUpSigningOut()
nameSecretPage()
addEventListener('pagehide', forgetSecrets)
addEventListener('pageshow', event => {
  if (!event.persisted) return
  if (signOuts() !== signOutsBefore) {
    document.body.replaceChildren()
    location.reload()
  }
  for (const form of document.querySelectorAll('form[data-sent]')) delete form.dataset.sent
  for (const form of document.querySelectorAll('form[data-digests]')) form.elements.digest.value = ''
})
