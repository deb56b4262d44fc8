import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parse,
  parseDocument,
} from 'yaml'
import { isJsonObject } from '../domain/form/json.ts'
import type { ConfigProblem } from './config-error.ts'
import {
  CONTRACT_NAMES,
  type GivenValue,
  type Layer,
  type Setting,
  sectionPaths,
  settingByPath,
  settingNames,
  settings,
} from './settings.ts'
import { similarTo } from './similar-name.ts'

/** Variables that other commands of postern read. */
const OTHER_VARIABLES = new Set(['POSTERN_CONFIG', 'POSTERN_CONSOLE_URL'])

const SERVICE_LINK =
  'is set by Kubernetes for a Service of that name, and is not a setting: set enableServiceLinks: false on the pod'
/** Every name that a file can hold. */
const FILE_NAMES = [
  ...sectionPaths,
  ...settings.flatMap(({ path, secret }) => (secret ? [path, `${path}File`] : [path])),
]

export function layerOfDefaults(): Layer {
  const withDefault = settings.filter(({ schema }) => schema.default !== undefined)
  // Copies: a process may change the settings that it runs with.
  return new Map(
    withDefault.map(({ path, schema }) => [path, { source: path, value: structuredClone(schema.default) }]),
  )
}

/** @param label the file's name, for problems */
export function layerOfFile(text: string, label: string, problems: ConfigProblem[]): Layer {
  const layer = new Map<string, GivenValue>()
  try {
    const parsed = parseLocatedYaml(text)
    if (!parsed.ok) problems.push(...parsed.faults.map(fault => toProblem(label, fault)))
    else collect(parsed.yaml, label, layer, problems)
  } catch {
    // More aliases than the parser resolves.
    problems.push({ source: label, problem: 'is not valid YAML', path: '' })
  }
  return layer
}

function toProblem(label: string, { line, what }: YamlFault): ConfigProblem {
  return { source: `${label}:${line}`, problem: `is not valid YAML: ${what}`, path: '' }
}

/**
 * Every `POSTERN_…` must be a setting. An empty one counts as not set, unless it is a secret. Those of other names belong to
 * other programs, too: empty, they count as not set.
 */
export function layerOfEnvironment(environment: NodeJS.ProcessEnv, problems: ConfigProblem[]): Layer {
  const layer = new Map<string, GivenValue>()
  const names = settings.flatMap(setting => settingNames(setting, 'environment'))
  const byName = new Map(names.map(known => [known.name, known]))
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('POSTERN_') || OTHER_VARIABLES.has(name) || text === undefined) continue
    const known = byName.get(name)
    if (isServiceLink(name, text)) problems.push({ source: name, problem: SERVICE_LINK })
    else if (known === undefined) problems.push({ source: name, problem: unknown(name, byName.keys()) })
    else if (text !== '' || known.setting.secret)
      layer.set(known.path, { source: name, value: parseText(known.setting, known.path, text) })
  }
  for (const { name, path, setting } of names.filter(({ name }) => !name.startsWith('POSTERN_'))) {
    const source = [name.toLowerCase(), name].find(variable => (environment[variable] ?? '').trim() !== '')
    if (source === undefined) continue
    const text = (environment[source] ?? '').trim()
    // NO_PROXY is separated by commas, blanks or both.
    const separated = setting.schema.type === 'array' ? text.replace(/\s+/g, ',') : text
    layer.set(path, { source, value: parseText(setting, path, separated) })
  }
  return layer
}

/** @param flags by name: `--upstream-url` */
export function layerOfFlags(flags: ReadonlyMap<string, string>): Layer {
  const layer = new Map<string, GivenValue>()
  for (const { name, path, setting } of settings.flatMap(setting => settingNames(setting, 'flag'))) {
    const text = flags.get(name)
    if (text !== undefined) layer.set(path, { source: name, value: parseText(setting, path, text) })
  }
  return layer
}

/** A later layer replaces an earlier one, or is merged by name; its secret also replaces the earlier one's file, and the other way round. */
export function overlay(layers: readonly Layer[], problems: ConfigProblem[]): Map<string, GivenValue> {
  const merged = new Map<string, GivenValue>()
  for (const layer of layers) {
    for (const [path, value] of layer) {
      const twin = path.endsWith('File') && !settingByPath.has(path) ? path.slice(0, -4) : `${path}File`
      const fileTwin = twin.endsWith('File') ? layer.get(twin) : undefined
      if (fileTwin !== undefined) {
        problems.push({
          source: value.source,
          problem: `is set twice: also as ${fileTwin.source}`,
          path,
        })
      }
      merged.delete(twin)
      merged.set(path, mergeByName(path, merged.get(path), value, problems))
    }
  }
  return merged
}

/**
 * The text of a variable, flag or secret file as the type of its setting; what cannot be converted stays text. A list may
 * be JSON; `[::1]:6379` is not.
 */
export function parseText(setting: Setting, path: string, text: string): unknown {
  if (path !== setting.path) return text
  const { type } = setting.schema
  if (type === 'integer' || type === 'number') return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  const isListOfTexts = type === 'array' && setting.schema.items?.type !== 'object'
  if (isListOfTexts && !/^\s*\[(?![^\]]*\]\s*[:,])/.test(text)) return splitList(text)
  return type === 'array' || type === 'object' ? parseYamlOrText(text) : text
}

function splitList(text: string): string[] {
  return text
    .split(/[,\n]/)
    .map(item => item.trim())
    .filter(item => item !== '')
}

function parseYamlOrText(text: string): unknown {
  try {
    // Warnings stay off the terminal: they repeat the text, which may be secret.
    return parse(text, { logLevel: 'error' })
  } catch {
    return text
  }
}

function collect(
  { value: root, lineOf }: LocatedYaml,
  label: string,
  layer: Map<string, GivenValue>,
  problems: ConfigProblem[],
): void {
  const sourceOf = (names: readonly string[], within: readonly string[] = []) => {
    const line = lineOf([...names, ...within])
    if (line === null) return null
    const part = within.length === 0 ? '' : `, at ${within.join('.')}`
    return `${label}:${line}: ${names.join('.')}${part}`
  }
  const collectSection = (section: Record<string, unknown>, above: readonly string[]): void => {
    for (const [name, value] of Object.entries(section)) {
      const names = [...above, name]
      const written = names.join('.')
      const path = CONTRACT_NAMES.get(written) ?? written
      // A name with a merge key or a tag has no place of its own.
      const source = sourceOf(names) ?? `${label}: ${written}`
      if (sectionPaths.has(path)) {
        if (isJsonObject(value)) collectSection(value, names)
        else if (value !== null) problems.push({ source, problem: 'must hold settings by name', path })
      } else if (settingByPath.has(path) || isSecretOrTwin(path)) {
        const partSource = (within: readonly string[]) => sourceOf(names, within)
        if (value !== null || isSecretOrTwin(path))
          layer.set(path, { source, partSource, value: listOfSecrets(path, value) })
      } else problems.push({ source, problem: unknown(path, FILE_NAMES) })
    }
  }
  if (root === null || root === undefined) return
  if (isJsonObject(root)) collectSection(root, [])
  else
    problems.push({
      source: label,
      problem: 'must hold settings by name, as config/default.yaml does',
      path: '',
    })
}

/** A list of secrets may be one text, as in a variable. */
function listOfSecrets(path: string, value: unknown): unknown {
  const setting = settingByPath.get(path)
  if (typeof value !== 'string' || setting?.secret !== true || setting.schema.type !== 'array') return value
  return parseText(setting, path, value)
}

function unknown(name: string, known: Iterable<string>): string {
  return `is not a setting${similarTo(name, known)}`
}

function isSecretOrTwin(path: string): boolean {
  return [path, path.replace(/File$/, '')].some(name => settingByPath.get(name)?.secret === true)
}

/** Kubernetes sets variables for each Service of the namespace, such as `POSTERN_GATEWAY_PORT=tcp://…`. */
function isServiceLink(name: string, text: string): boolean {
  return /^(?:tcp|udp|sctp):\/\//.test(text) || /_SERVICE_(?:HOST|PORT)|_PORT_\d+_(?:TCP|UDP|SCTP)/.test(name)
}

/** Settings whose entries have names: each layer adds to them. */
const MERGED_SETTINGS: ReadonlySet<string> = new Set(['routes', 'scopes'])

/**
 * The value of a setting in a later layer over that in an earlier one. If entries have names, the later ones are added: one of
 * the same name replaces the earlier one, and null removes it. Any other value replaces the earlier one.
 */
function mergeByName(
  path: string,
  earlier: GivenValue | undefined,
  later: GivenValue,
  problems: ConfigProblem[],
): GivenValue {
  const added = MERGED_SETTINGS.has(path) ? namedEntries(later.value) : null
  if (added === null) return later
  const entries = new Map(namedEntries(earlier?.value) ?? [])
  const names = added.map(([name]) => name)
  for (const [index, [name, entry]] of added.entries()) {
    if (names.indexOf(name) < index) {
      problems.push({ source: later.source, problem: `has two entries of the name ${name}`, path })
    } else if (entry !== null) entries.set(name, entry)
    else if (!entries.delete(name)) {
      const problem = 'is null, which removes an entry of this name, but there is none'
      const source = later.partSource?.([name]) ?? `${later.source}, at ${name}`
      problems.push({ source, problem, path })
    }
  }
  return { ...later, value: Object.fromEntries(entries) }
}

/** A map by name, or a list whose entries hold their names. @returns null if it is neither */
function namedEntries(value: unknown): [name: string, entry: unknown][] | null {
  if (isJsonObject(value)) return Object.entries(value)
  if (!Array.isArray(value) || value.length === 0) return null
  const entries = value.flatMap((item: unknown): [string, unknown][] => {
    if (!isJsonObject(item) || typeof item['name'] !== 'string') return []
    const { name, ...entry } = item
    return [[item['name'], entry]]
  })
  return entries.length === value.length ? entries : null
}

/** @returns the names of default entries that were removed, for each setting whose entries have names */
export function removedNames(defaults: Layer, given: Layer): ReadonlyMap<string, readonly string[]> {
  const namesIn = (layer: Layer, path: string) => Object.keys(Object(layer.get(path)?.value))
  return new Map(
    [...MERGED_SETTINGS].map(path => {
      const left = new Set(namesIn(given, path))
      return [path, namesIn(defaults, path).filter(name => !left.has(name))]
    }),
  )
}

/** A YAML file, and where its parts are. */
interface LocatedYaml {
  readonly value: unknown
  /** The line of a name or entry, from 1; null if the file does not have it. Entries of a list go by number or by their `name`. */
  readonly lineOf: (path: readonly string[]) => number | null
}

interface YamlFault {
  readonly line: number
  /** Without text of the file, which may be secret. */
  readonly what: string
}

type Located =
  | { readonly ok: true; readonly yaml: LocatedYaml }
  | { readonly ok: false; readonly faults: YamlFault[] }

function parseLocatedYaml(text: string): Located {
  const lineCounter = new LineCounter()
  // Warnings stay off the terminal: like the parser's messages, they repeat lines of the file.
  const document = parseDocument(text, { lineCounter, logLevel: 'error' })
  const faults = document.errors.map(({ code, pos }) => ({
    line: Math.max(1, lineCounter.linePos(pos[0]).line),
    what: code.toLowerCase().replaceAll('_', ' '),
  }))
  if (faults.length > 0) return { ok: false, faults }
  const lineOf = (path: readonly string[]) => {
    const offset = findOffset(document, path)
    return offset === null ? null : lineCounter.linePos(offset).line
  }
  return { ok: true, yaml: { value: document.toJS(), lineOf } }
}

interface Place {
  readonly node: unknown
  /** Of a pair, its name: the value may begin on another line. */
  readonly named: unknown
}

function findOffset(document: Document, path: readonly string[]): number | null {
  let place: Place | null = { node: document.contents, named: null }
  for (const name of path) {
    place = childAt(document, place.node, name)
    if (place === null) return null
  }
  // Only nodes that were parsed have a range.
  return (place.named as Partial<Node> | null)?.range?.[0] ?? null
}

function childAt(document: Document, parent: unknown, name: string): Place | null {
  const node = isAlias(parent) ? parent.resolve(document) : parent
  if (isMap(node)) {
    const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === name)
    return pair === undefined ? null : { node: pair.value, named: pair.key }
  }
  if (!isSeq(node)) return null
  const item = /^\d+$/.test(name)
    ? node.items[Number(name)]
    : node.items.find(entry => isMap(entry) && entry.get('name') === name)
  return item === undefined ? null : { node: item, named: item }
}
