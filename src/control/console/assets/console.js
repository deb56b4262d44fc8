/* What makes the pages handier. Each of them works without it. */

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
]
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'always' })

/** The same words as the server's. */
function relativeTime(differenceMs) {
  for (const [unit, unitMs] of UNITS) {
    const count = Math.trunc(differenceMs / unitMs)
    if (count !== 0) return RELATIVE.format(count, unit)
  }
  return differenceMs <= 0 ? 'just now' : 'in under a minute'
}

/** By the console's clock: that of this machine may be wrong. */
const aheadMs = Number(document.body.dataset.now ?? Date.now()) - Date.now()

function keepTimesTrue() {
  for (const element of document.querySelectorAll('time[data-live]')) {
    const text = relativeTime(Date.parse(element.dateTime) - Date.now() - aheadMs)
    if (element.textContent !== text) element.textContent = text
  }
}

/** Where a page may not write to the clipboard (plain http), what is selected can still be copied. */
async function copy(element) {
  if (navigator.clipboard !== undefined) {
    await navigator.clipboard.writeText(element.textContent)
    return true
  }
  getSelection().selectAllChildren(element)
  return document.execCommand('copy')
}

function setUpCopying() {
  for (const button of document.querySelectorAll('button[data-copies]')) {
    const said = document.createElement('span')
    said.className = 'hidden'
    said.setAttribute('role', 'status')
    button.after(said)
    button.hidden = false
    button.addEventListener('click', async () => {
      const done = await copy(document.getElementById(button.dataset.copies)).catch(() => false)
      button.textContent = done ? 'Copied' : 'Copy it by hand'
      said.textContent = button.textContent
    })
  }
}

/** A page that asks once more becomes a dialog on the spot. */
function setUpDialogs() {
  for (const link of document.querySelectorAll('a[data-opens]')) {
    const dialog = document.getElementById(link.dataset.opens)
    if (dialog === null) continue
    link.setAttribute('role', 'button')
    link.setAttribute('aria-haspopup', 'dialog')
    link.addEventListener('click', event => {
      event.preventDefault()
      dialog.showModal()
    })
    link.addEventListener('keydown', event => {
      if (event.key !== ' ') return
      event.preventDefault()
      dialog.showModal()
    })
    dialog.querySelector('[data-closes]')?.addEventListener('click', event => {
      event.preventDefault()
      dialog.close()
    })
  }
}

/** Who enters a date means it. */
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

/** A menu closes as people expect of one. */
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

/** A form is sent once, however often its button is pressed. */
function setUpForms() {
  for (const form of document.querySelectorAll('form[method="post"]')) {
    form.addEventListener('submit', event => {
      if (form.dataset.sent === 'yes') event.preventDefault()
      form.dataset.sent = 'yes'
    })
  }
}

/** How often somebody has signed out in this tab. */
const signOuts = () => Number(sessionStorage.getItem('signOuts') ?? 0)
const signOutsBefore = signOuts()

/** Browsers keep whole pages for going back, also those that no cache may hold: after signing out they are asked for anew. */
function setUpSigningOut() {
  document.querySelector('form[action="/sign-out"]')?.addEventListener('submit', () => {
    sessionStorage.setItem('signOuts', String(signOuts() + 1))
  })
}

/** Whatever a browser keeps of a page that was left, it keeps no secret. */
function forgetSecrets() {
  for (const element of document.querySelectorAll('[data-secret]')) {
    const gone = document.createElement('p')
    gone.className = 'notice'
    gone.textContent = 'The secret was shown here once, and is gone.'
    element.replaceChildren(gone)
  }
}

keepTimesTrue()
setInterval(keepTimesTrue, 1000)
setUpCopying()
setUpDialogs()
setUpChoices()
setUpMenus()
setUpForms()
setUpSigningOut()
addEventListener('pagehide', forgetSecrets)
addEventListener('pageshow', event => {
  if (!event.persisted) return
  if (signOuts() !== signOutsBefore) {
    document.body.replaceChildren()
    location.reload()
  }
  for (const form of document.querySelectorAll('form[data-sent]')) delete form.dataset.sent
})
