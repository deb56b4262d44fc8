import { type Setting, settings } from '../../src/config/settings.ts'
import { describeSetting } from './default-settings.ts'

export const SETTINGS_PAGE = new URL('../../docs/settings.md', import.meta.url)

const BEGIN = '<!-- settings -->'
const END = '<!-- /settings -->'
/** Too long for a table cell. */
const SHOWN_ELSEWHERE = new Set(['scopes', 'routes'])

/** The page with its settings table regenerated; the text around the two markers is unchanged. */
export function withCurrentSettings(page: string): string {
  const begin = page.indexOf(BEGIN)
  const end = page.indexOf(END)
  if (begin < 0 || end < begin) throw new Error(`docs/settings.md must hold ${BEGIN} and, after it, ${END}`)
  return `${page.slice(0, begin)}${BEGIN}\n\n${settingsTable(settings)}\n${page.slice(end)}`
}

/** The settings as a table in Markdown. */
export function settingsTable(rows: readonly Setting[]): string {
  const head = ['setting', 'environment', 'default', 'meaning']
  return [head, head.map(() => '---'), ...rows.map(cellsOf)]
    .map(cells => `| ${cells.join(' | ')} |\n`)
    .join('')
}

function cellsOf({ path, environment, secret, schema }: Setting): string[] {
  return (
    [
      `\`${path}\``,
      `\`${environment}\`${secret ? ', `…_FILE`' : ''}`,
      SHOWN_ELSEWHERE.has(path) ? 'as `config/default.yaml` shows' : showDefault(schema.default),
      describeSetting(schema),
    ]
      // A pipe would end the cell.
      .map(cell => cell.replaceAll('|', '\\|'))
  )
}

function showDefault(value: unknown): string {
  const items = Array.isArray(value) ? value : typeof value === 'object' ? Object.keys(value ?? {}) : [value]
  const texts = items.filter(item => item !== undefined).map(item => `\`${String(item)}\``)
  return texts.length === 0 ? 'none' : texts.join(', ')
}
