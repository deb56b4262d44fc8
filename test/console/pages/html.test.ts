import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { html, markInvisible } from '../../../src/console/platform/html/html.ts'

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
