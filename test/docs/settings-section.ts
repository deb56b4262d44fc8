import { type Setting, settings } from '../../src/config/settings.ts'
import { describeSetting } from './default-settings.ts'

export const README = new URL('../../README.md', import.meta.url)

const BEGIN = '<!-- settings -->'
const END = '<!-- /settings -->'
/** Too rich for a cell. */
const SHOWN_ELSEWHERE = new Set(['scopes', 'routes'])

/** The README with its table of settings made anew; all around the two markers stays as it is. */
export function withCurrentSettings(readme: string): string {
  const begin = readme.indexOf(BEGIN)
  const end = readme.indexOf(END)
  if (begin < 0 || end < begin) throw new Error(`README.md must hold ${BEGIN} and, after it, ${END}`)
  return `${readme.slice(0, begin)}${BEGIN}\n\n${settingsTable(settings)}\n${readme.slice(end)}`
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
