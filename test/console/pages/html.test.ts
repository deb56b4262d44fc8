import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import {
  ago,
  clockText,
  dateText,
  exactText,
  html,
  instant,
  instantAndAgo,
  instantText,
  markInvisible,
} from '../../../src/console/platform/html/html.ts'

const CONSOLE = fileURLToPath(new URL('../../../src/console', import.meta.url))
/** Without quotes, a value with a space could add an attribute. */
const UNQUOTED_VALUE = /<[a-z][^<>`]*\s[a-z-]+=\$\{/

describe('a page', () => {
  it('quotes the value of every attribute', () => {
    expect(`<a class="b" href=\${link}>`).toMatch(UNQUOTED_VALUE)
    const files = readdirSync(CONSOLE, { recursive: true, encoding: 'utf8' }).filter(file =>
      file.endsWith('.ts'),
    )
    expect(files.length).toBeGreaterThan(30)
    const unquoted = files.filter(file => UNQUOTED_VALUE.test(readFileSync(join(CONSOLE, file), 'utf8')))
    expect(unquoted).toEqual([])
  })

  it('escapes text from people, in content and in attributes', () => {
    const name = `"><img src=x onerror='alert(1)'>&\``
    const page = html`<a title="${name}">${name}</a>`.toString()
    expect(page).not.toMatch(/<img|onerror='/)
    expect(page).toMatch(/^<a title="[^"<>']*">[^"<>']*<\/a>$/)
  })

  it('renders our HTML, lists, numbers and null', () => {
    const items = [1, 2].map(count => html`<li>${count}</li>`)
    expect(html`<ul>${items}${null}</ul>`.toString()).toBe('<ul><li>1</li><li>2</li></ul>')
    expect(html`<p>${['<b>', null, html`<i>`]}</p>`.toString()).toBe('<p>&lt;b&gt;<i></p>')
  })
})

describe('a name', () => {
  it.each([
    ['turns the direction of text', '\u202egnp.exe', 'U+202E'],
    ['has no width', 'build\u200bserver', 'U+200B'],
    ['joins what is no picture', 'a\u200db', 'U+200D'],
    ['is an invisible letter', '\u3164', 'U+3164'],
    ['is a tag of another plane', 'a\u{e0041}', 'U+E0041'],
    ['is a soft hyphen', 'a\u00adb', 'U+00AD'],
  ])('shows the code point of a character that %s', (_, name, code) => {
    const shown = markInvisible(name).toString()
    expect(shown).toContain(`>${code}</span>`)
    expect(shown).not.toMatch(/[\p{Cf}\u3164]/u)
  })

  it.each(['build server', 'Bäckerei №7', 'سيرفر', '👩‍💻 laptop', '🏳️‍🌈', '日本'])(
    'is shown unchanged: %s',
    name => {
      expect(markInvisible(name).toString()).toBe(`<bdi>${name}</bdi>`)
    },
  )
})

describe('a name without a visible character', () => {
  const unseen = (code: string) => `<span class="unseen" title="Invisible character">U+${code}</span>`

  it('shows each by its code point, up to eight', () => {
    const shown = (count: number) => markInvisible('\u200b'.repeat(count)).toString()
    expect(shown(1)).toBe(`<bdi>${unseen('200B')}</bdi>`)
    expect(shown(8)).toBe(`<bdi>${unseen('200B').repeat(8)}</bdi>`)
    expect(shown(9)).toBe(`<bdi>${unseen('200B').repeat(8)}…</bdi>`)
  })

  it('shows those between others where they are', () => {
    expect(markInvisible('a\u0001b\u200bc').toString()).toBe(
      `<bdi>a${unseen('0001')}b${unseen('200B')}c</bdi>`,
    )
    expect(markInvisible('').toString()).toBe('<bdi></bdi>')
  })
})

describe('a time', () => {
  const AT = Date.parse('2027-02-18T09:05:07.125Z')
  const HOUR_MS = 3_600_000

  it('is shown in UTC, as exactly as it is needed', () => {
    expect([dateText(AT), instantText(AT), exactText(AT)]).toEqual([
      '18 Feb 2027',
      '18 Feb 2027, 09:05 UTC',
      '18 Feb 2027, 09:05:07.125 UTC',
    ])
    expect(dateText(Date.parse('2027-02-18T23:59:59Z'))).toBe('18 Feb 2027')
  })

  it('has its date unless it is today', () => {
    expect(clockText(AT, AT + HOUR_MS)).toBe('09:05:07 UTC')
    expect(clockText(AT, AT + 15 * HOUR_MS)).toBe('18 Feb 2027, 09:05:07 UTC')
  })

  it('is in the markup as an instant, which the script keeps current', () => {
    const datetime = 'datetime="2027-02-18T09:05:07.125Z"'
    const relative = `<time ${datetime} title="18 Feb 2027, 09:05 UTC" data-live>1 hour ago</time>`
    expect(ago(AT, AT + HOUR_MS).toString()).toBe(relative)
    expect(instant(AT).toString()).toBe(`<time ${datetime} data-local="minute">18 Feb 2027, 09:05 UTC</time>`)
    expect(instantAndAgo(AT, AT + HOUR_MS).toString()).toBe(
      `<time ${datetime} data-local="minute">18 Feb 2027, 09:05 UTC</time> <span class="muted">(${relative})</span>`,
    )
  })
})
