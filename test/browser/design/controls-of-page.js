/* Runs in a page. Needs nothing of it but the document. */

/** How the control is named in a failure: `input[type=url] "webhook"`. */
function describeControl(element) {
  const type = element.type === undefined || element.localName !== 'input' ? '' : `[type=${element.type}]`
  const name = element.name || element.textContent.trim().replace(/\s+/g, ' ').slice(0, 40)
  return `${element.localName}${type} "${name}"`
}

/** Its class names and states, and the surroundings that change how it looks. */
function kindOf(element, { name, marks, within }) {
  const classes = [...element.classList].filter(one => !marks.includes(one)).sort()
  const states = ['aria-invalid', 'aria-current'].filter(state => element.hasAttribute(state))
  const place = within.find(selector => element.closest(selector) !== null)
  const parts = [name, ...classes.map(one => `.${one}`), ...states.map(state => `[${state}]`)].join('')
  return place === undefined ? parts : `${parts} in ${place}`
}

function styleOf(element, { properties, sizes }) {
  const computed = getComputedStyle(element)
  const isSized = element.checkVisibility() && element.localName !== 'textarea'
  const names = isSized ? [...properties, ...sizes] : properties
  // Within a grid, no least height is `auto`.
  const read = name => {
    const value = computed.getPropertyValue(name)
    return name === 'min-height' && value === 'auto' ? '0px' : value
  }
  return Object.fromEntries(names.map(name => [name, read(name)]))
}

/** Every control of the page. @param families the first that matches an element is its own */
globalThis.controlsOfPage = families => {
  const all = families.map(({ selector }) => selector).join(', ')
  return [...document.querySelectorAll(all)].map(element => {
    const family = families.find(({ selector }) => element.matches(selector))
    return {
      control: describeControl(element),
      kind: kindOf(element, family),
      style: styleOf(element, family),
    }
  })
}
