import { isMap, isScalar, parseDocument, type YAMLMap } from 'yaml'
import { settings } from '../../src/config/settings.ts'
import { describeSetting } from './default-settings.ts'

/** One value of the chart, with its comment in `values.yaml`. */
export interface DocumentedValue {
  readonly path: string
  readonly byDefault: string
  readonly comment: string
  /** Whether it is only a parent of further values. */
  readonly group: boolean
}

/** Every value of the chart, in order. A map written on one line counts as one value. */
export function documentedValues(valuesYaml: string): DocumentedValue[] {
  const { contents } = parseDocument(valuesYaml)
  if (!isMap(contents)) throw new Error('values.yaml must hold a map')
  return valuesOf(contents, '')
}

function valuesOf(map: YAMLMap, prefix: string): DocumentedValue[] {
  return map.items.flatMap(({ key, value }, index) => {
    if (!isScalar(key)) throw new Error(`A name in ${prefix} is no text`)
    const path = prefix === '' ? String(key.value) : `${prefix}.${String(key.value)}`
    // The parser attaches a comment before the first name to the map itself; only its last paragraph describes the value.
    const above = key.commentBefore ?? (index === 0 ? map.commentBefore : undefined) ?? ''
    const paragraph = above.split(/\n\s*\n/).at(-1) ?? ''
    const comment = paragraph
      .split('\n')
      .map(line => line.trim())
      .join(' ')
    const inner = isMap(value) && value.flow !== true && value.items.length > 0 ? value : null
    const row = {
      path,
      comment: comment.trim(),
      group: inner !== null,
      byDefault: inner === null ? show(value) : '',
    }
    return inner === null ? [row] : [row, ...valuesOf(inner, path)]
  })
}

function show(value: unknown): string {
  const plain: unknown =
    typeof value === 'object' && value !== null && 'toJSON' in value
      ? (value as { toJSON(): unknown }).toJSON()
      : value
  return `\`${JSON.stringify(plain)}\``
}

/** The README with its two tables regenerated; the text around the markers is unchanged. */
export function chartReadme(readme: string, valuesYaml: string): string {
  const values = documentedValues(valuesYaml).filter(({ comment, group }) => comment !== '' || !group)
  const rows = values.map(({ path, byDefault, comment }) => [`\`${path}\``, byDefault, comment])
  return between(
    between(readme, 'values', table(['value', 'default', 'meaning'], rows)),
    'settings',
    table(['`config.` …', 'by `secrets`', 'default', 'meaning'], settingRows()),
  )
}

function settingRows(): string[][] {
  return settings.map(({ path, secret, schema }) => {
    const byDefault = schema.default
    const rich = path === 'routes' || path === 'scopes'
    return [
      `\`${path}\``,
      path === 'regions' ? 'by name' : secret ? 'yes' : path.endsWith('File') ? 'Secret or ConfigMap' : '',
      rich ? 'as `config/default.yaml` shows' : byDefault === undefined ? 'none' : show(byDefault),
      describeSetting(schema),
    ]
  })
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows]
    .map(cells => `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |\n`)
    .join('')
}

function between(text: string, name: string, made: string): string {
  const begin = `<!-- ${name} -->`
  const from = text.indexOf(begin)
  const to = text.indexOf(`<!-- /${name} -->`)
  if (from < 0 || to < from) throw new Error(`helm/README.md must hold ${begin} and its end`)
  return `${text.slice(0, from)}${begin}\n\n${made}\n${text.slice(to)}`
}
