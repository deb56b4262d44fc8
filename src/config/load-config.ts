import { readFileSync } from 'node:fs'
import { Errors, Meta } from 'typebox/schema'
import { isJsonObject, parseJsonObject } from '../domain/form/json.ts'
import { parseAssertionKey } from '../domain/pem.ts'
import {
  isInside,
  type JsonSchema,
  type ResponseSchema,
  referencesIn,
} from '../domain/route/response-schema.ts'
import { findUnusableCertificates } from './certificate-files.ts'
import { ConfigError, type ConfigProblem } from './config-error.ts'
import {
  layerOfDefaults,
  layerOfEnvironment,
  layerOfFile,
  layerOfFlags,
  overlay,
  parseText,
  removedNames,
} from './layers.ts'
import { readRegions } from './regions.ts'
import { ASSERTION_KEY_FILES, checkRules, type Plane } from './rules.ts'
import type { Config } from './schema/schema.ts'
import { fileErrorText, SettingFiles } from './setting-files.ts'
import { fileSettings, type GivenValue, type Layer, settings, valueAt } from './settings.ts'
import { validate } from './validate.ts'

export type LoadedConfig =
  | {
      readonly ok: true
      readonly config: Config
      /** The files that the settings name, each with a fingerprint of what it held. */
      readonly files: ReadonlyMap<string, string>
      /** Names of default routes and scopes that these settings remove, by setting. */
      readonly removed: ReadonlyMap<string, readonly string[]>
    }
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] }

interface ConfigSources {
  readonly environment: NodeJS.ProcessEnv
  readonly flags?: ReadonlyMap<string, string>
  readonly configFile?: string | undefined
  /** What is about to run, which decides what is required. */
  readonly planes: readonly Plane[]
  /** Also reads the certificates and keys that the settings name. A start reads them where it needs them. */
  readonly readsCertificates?: boolean
}

const EMPTY_SECRET = 'is set but empty: set the secret, or remove it'

/**
 * The effective settings: flags before environment before the configuration file before the defaults.
 * @returns the settings, or every problem at once, each with the name that was written
 */
export function loadConfig(sources: ConfigSources): LoadedConfig {
  const problems: ConfigProblem[] = []
  const files = new SettingFiles(problems)
  const defaults = layerOfDefaults()
  const layers = [
    defaults,
    layerOfConfigFile(sources.configFile ?? sources.environment['POSTERN_CONFIG'], problems),
    layerOfEnvironment(sources.environment, problems),
    layerOfFlags(sources.flags ?? new Map()),
  ]
  const given = overlay(layers, problems)
  readSecretFiles(given, files)
  problems.push(...findEmptySecrets(given, defaults))
  const candidate = assemble(given)
  readHeaderFiles(candidate, files, problems)
  const known = new Set(problems.map(({ path }) => path))
  problems.push(...validate(candidate, given).filter(({ path }) => !known.has(path)))
  const isValid = createValidityCheck(problems)
  if (isValid('routes')) {
    const reads = sources.planes.length !== 1 || sources.planes[0] !== 'gateway'
    readResponseSchemas(nameRoutes(candidate), { files, problems, reads })
  }
  if (isValid('regions')) candidate['regions'] = readRegions(candidate['regions'], { files, problems })
  // A rule reads only what is valid: of that part the schema has accepted the candidate.
  const config = candidate as unknown as Config
  if (sources.planes.includes('gateway') && isValid(ASSERTION_KEY_FILES)) {
    problems.push(...checkAssertionKeys(config.upstream.assertion.keyFiles, files))
  }
  const broken = checkRules(config, sources.planes, isValid)
  if (sources.readsCertificates === true) {
    broken.push(...findUnusableCertificates(config, sources.planes, isValid))
  }
  problems.push(...broken.map(problem => withSource(problem, given)))
  if (problems.length > 0) return { ok: false, problems }
  for (const { path } of fileSettings) {
    for (const file of [valueAt(config, path)].flat()) if (typeof file === 'string') files.watch(file)
  }
  return { ok: true, config, files: files.fingerprints, removed: removedNames(defaults, given) }
}

/** @throws ConfigError, which names every problem */
export function configOrThrow(loaded: LoadedConfig): Config {
  if (!loaded.ok) throw new ConfigError(loaded.problems)
  return loaded.config
}

function layerOfConfigFile(file: string | undefined, problems: ConfigProblem[]): Layer {
  if (file === undefined || file === '') return new Map()
  try {
    return layerOfFile(readFileSync(file, 'utf8'), file, problems)
  } catch (error) {
    problems.push({ source: file, problem: `cannot be read: ${fileErrorText(error)}`, path: '' })
    return new Map()
  }
}

function readSecretFiles(given: Map<string, GivenValue>, files: SettingFiles): void {
  for (const setting of settings) {
    const { path, secret } = setting
    const named = given.get(`${path}File`)
    if (!secret || named === undefined) continue
    given.delete(`${path}File`)
    // An empty file name counts as an empty secret.
    const text = isEmpty(named.value) ? '' : files.readText(named, String(named.value), path)
    if (text !== null) given.set(path, { source: named.source, value: parseText(setting, path, text) })
  }
}

/**
 * An empty secret was probably lost on the way, and must not open what it protects. Defaults may be empty; a map without
 * entries is deliberate.
 */
function findEmptySecrets(given: Layer, defaults: Layer): ConfigProblem[] {
  return settings.flatMap(({ path, secret }) => {
    const value = given.get(path)
    if (!secret || value === undefined || value === defaults.get(path) || !isEmpty(value.value)) return []
    return [{ source: value.source, problem: EMPTY_SECRET, path }]
  })
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0
  return value === null || (typeof value === 'string' && value.trim() === '')
}

function readHeaderFiles(
  candidate: Record<string, unknown>,
  files: SettingFiles,
  problems: ConfigProblem[],
): void {
  const path = 'upstream.headers'
  const upstream = candidate['upstream'] as { headers?: unknown }
  if (!isJsonObject(upstream.headers)) return
  const headers = { ...upstream.headers }
  for (const [name, value] of Object.entries(headers)) {
    const file = valueAt(value, 'file')
    if (typeof file !== 'string') continue
    const source = `${path}.${name}`
    const text = files.readText({ source, value: file }, file, path)
    if (text === '') problems.push({ source, problem: EMPTY_SECRET, path })
    else if (text !== null) headers[name] = text
  }
  upstream.headers = headers
}

/** Turns the map of routes into a list, each with its name. */
function nameRoutes(candidate: Record<string, unknown>): { name: string }[] {
  // The schema has accepted them.
  const routes = candidate['routes'] as Record<string, object>
  const named = Object.entries(routes).map(([name, route]) => ({ name, ...route }))
  candidate['routes'] = named
  return named
}

function assemble(given: Layer): Record<string, unknown> {
  const root: Record<string, unknown> = {}
  for (const { path } of settings) {
    const parts = path.split('.')
    const leaf = parts.pop() ?? path
    let parent = root
    for (const part of parts) {
      parent[part] ??= {}
      // Only sections are made here, one line above.
      parent = parent[part] as Record<string, unknown>
    }
    const value = given.get(path)
    if (value !== undefined) parent[leaf] = value.value
  }
  return root
}

/** @returns whether a setting, and all of a section, is free of problems; the path of a whole file is empty */
function createValidityCheck(problems: readonly ConfigProblem[]): (path: string) => boolean {
  const invalid = problems.flatMap(({ path }) => path ?? [])
  const contains = (section: string, path: string) => section === '' || `${path}.`.startsWith(`${section}.`)
  return path => !invalid.some(wrong => contains(wrong, path) || contains(path, wrong))
}

/** Names the setting, or the part of it, as it was written. */
function withSource(problem: ConfigProblem, given: Layer): ConfigProblem {
  const names = problem.source.split('.')
  for (let length = names.length; length > 0; length--) {
    const value = given.get(names.slice(0, length).join('.'))
    if (value === undefined) continue
    const within = names.slice(length)
    const source = within.length === 0 ? value.source : value.partSource?.(within)
    return { ...problem, source: source ?? problem.source }
  }
  return problem
}

const MAX_SCHEMA_BYTES = 256 * 1024
const SCHEMA_DIALECT = Meta['https://json-schema.org/draft/2020-12/schema']

interface NamedRoute {
  readonly name: string
  responseSchema?: unknown
}

/** Replaces the file names of `responseSchema` by what the files hold. */
function readResponseSchemas(
  routes: readonly NamedRoute[],
  { files, problems, reads }: { files: SettingFiles; problems: ConfigProblem[]; reads: boolean },
): void {
  for (const route of routes) {
    const { name, responseSchema: file } = route
    if (typeof file !== 'string') continue
    const source = `routes.${name}.responseSchema`
    const text = reads ? files.readText({ source, value: file }, file, 'routes') : null
    const read = text === null ? null : parseSchema(text)
    if (typeof read === 'string')
      problems.push({ source, problem: `names a file that ${read}`, path: 'routes' })
    route.responseSchema = { file, schema: typeof read === 'string' ? null : read } satisfies ResponseSchema
  }
}

/** @returns the schema, or what is wrong with the file */
function parseSchema(text: string): JsonSchema | string {
  if (text.length > MAX_SCHEMA_BYTES) return `is larger than ${MAX_SCHEMA_BYTES / 1024} KiB`
  const schema: JsonSchema | null = parseJsonObject(text)
  if (schema === null) return 'is no JSON object'
  const [isValid, [error]] = Errors(Meta, SCHEMA_DIALECT, schema)
  if (!isValid) return `is no JSON Schema (2020-12): at ${error?.instancePath || '/'} it ${error?.message}`
  const outside = referencesIn(schema).find(reference => !isInside(schema, reference))
  return outside === undefined
    ? schema
    : `refers to ${outside.slice(0, 100)}: a reference must be a JSON pointer into the same file, such as #/$defs/file`
}

/**
 * Checks the files of the keys that sign assertions. What signs reads them again, so that the settings hold no key. Two files
 * with one key are rejected: a rotation has replaced one of them, and not yet the other.
 */
function checkAssertionKeys(keyFiles: readonly string[], files: SettingFiles): ConfigProblem[] {
  const indexOfKey = new Map<string, number>()
  return keyFiles.flatMap((file, index) => {
    const source = `${ASSERTION_KEY_FILES}, at ${index}`
    const text = files.readText({ source, value: file }, file, ASSERTION_KEY_FILES)
    if (text === null) return []
    const key = parseAssertionKey(text)
    const problem =
      typeof key === 'string' ? `names a file that ${key}` : repeatedKey(key.publicKey.kid, index)
    return problem === null ? [] : [{ source, problem, path: ASSERTION_KEY_FILES }]
  })

  function repeatedKey(kid: string, index: number): string | null {
    const earlier = indexOfKey.get(kid)
    indexOfKey.set(kid, index)
    return earlier === undefined ? null : `holds the same key as the file at ${earlier}`
  }
}
