import { formats } from './formats.ts'
import { expectationOf, type Setting, settings } from './settings.ts'
import { type Layer, layerOfFile } from './sources.ts'

/** Settings of a form too rich for a cell: the file of defaults shows them better. */
const SHOWN_ELSEWHERE = new Set(['scopes', 'routes'])

/**
 * The table of all settings in Markdown, for the README.
 * @param defaults text of `config/default.yaml`
 */
export function describeSettings(defaults: string): string {
  const layer = layerOfFile(defaults, 'config/default.yaml', [])
  const rows = settings.map(setting => rowOf(setting, layer))
  const head = ['setting', 'environment', 'default', 'meaning']
  return [head, head.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |\n`).join('')
}

function rowOf(setting: Setting, defaults: Layer): string[] {
  const { path, environment, secret } = setting
  return (
    [
      `\`${path}\``,
      `\`${environment}\`${secret ? ', `…_FILE`' : ''}`,
      defaultOf(path, defaults),
      meaningOf(setting),
    ]
      // A pipe would end the cell.
      .map(cell => cell.replaceAll('|', '\\|'))
  )
}

function defaultOf(path: string, defaults: Layer): string {
  if (SHOWN_ELSEWHERE.has(path)) return 'as `config/default.yaml` shows'
  const value = defaults.get(path)?.value
  const items = Array.isArray(value) ? value : typeof value === 'object' ? Object.keys(value ?? {}) : [value]
  const texts = items.filter(item => item !== undefined).map(item => `\`${String(item)}\``)
  return texts.length === 0 ? 'none' : texts.join(', ')
}

/** The line of the schema, and what may be set where the line does not say so. */
function meaningOf({ schema }: Setting): string {
  const { description = '', type, anyOf } = schema
  if (anyOf === undefined && type !== 'integer' && type !== 'number') return description
  return `${description}; ${expectationOf(schema, formats)}`
}
