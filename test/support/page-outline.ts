import { unescaped } from './browser-double.ts'

const TOKEN = /<(\/?)([a-z!][\w-]*)((?:"[^"]*"|[^">])*)>|([^<]+)/gi
const ATTRIBUTE = /([\w-]+)(?:="([^"]*)")?/g
/** They say nothing by themselves: their text goes on in the line. */
const QUIET = new Set(
  '!doctype html head meta link script body div span section header strong small code bdi time tr tbody thead svg g rect br'.split(
    ' ',
  ),
)
/** Their attributes say nothing either. */
const UNSEEN = new Set(['!doctype', 'meta', 'link', 'script', 'rect', 'g'])
/** How a page looks, and what differs each time. */
const LEFT_OUT = new Set([
  'class',
  'datetime',
  'data-now',
  'aria-hidden',
  'charset',
  'content',
  'lang',
  'src',
  'defer',
  'rel',
])
const SECRET_FIELDS = /name="(?:_csrf|once)"/
const IDS = /(key|tok|audit|msg)_[0-9A-HJKMNP-TV-Z]{26}\b/g

/**
 * What a page says and offers, without its looks, much as a screen reader goes through it: texts, links, forms and fields, one
 * a line. Ids, hints and secrets are numbered in their order.
 */
export function outlineOf(markup: string): string {
  const lines: string[] = []
  let line = ''
  const end = () => {
    if (line.trim() !== '') lines.push(line.trim())
    line = ''
  }
  for (const [, slash = '', tag = '', attributes = '', text] of markup.matchAll(TOKEN)) {
    if (text !== undefined) line += text.replaceAll(/\s+/g, ' ')
    else {
      const name = tag.toLowerCase()
      const shown = slash === '' ? shownAttributes(name, attributes) : ''
      if (QUIET.has(name) && shown === '') continue
      end()
      if (slash === '') line = `${name}${shown}: `
    }
  }
  end()
  return numbered(unescaped(lines.map(text => text.replace(/:$/, '')).join('\n')))
}

function shownAttributes(tag: string, attributes: string): string {
  if (UNSEEN.has(tag)) return ''
  return [...attributes.matchAll(ATTRIBUTE)]
    .filter(([, name = '']) => !LEFT_OUT.has(name))
    .filter(([, name = '']) => !(name === 'value' && SECRET_FIELDS.test(attributes)))
    .map(([, name = '', value]) => (value === undefined ? ` ${name}` : ` ${name}="${value}"`))
    .join('')
}

function numbered(text: string): string {
  const ids = new Map<string, string>()
  return text
    .replaceAll(IDS, (id, kind: string) => {
      const known = ids.get(id) ?? `${kind}_${ids.size + 1}`
      ids.set(id, known)
      return known
    })
    .replaceAll(/(wsk|pat)_[0-9A-Za-z]{54}\b/g, '$1_(secret)')
    .replaceAll(/(wsk|pat)_…[0-9A-Za-z]{4}/g, '$1_…(hint)')
    .replaceAll(/\b[0-9a-f]{32}\b/g, '(request id)')
    .replaceAll(/whsec_[0-9A-Za-z+/=]+/g, 'whsec_(secret)')
}
