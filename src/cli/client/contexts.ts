import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { parse, stringify } from 'yaml'
import { fileErrorText } from '../../config/setting-files.ts'
import { EXIT } from '../../run/host.ts'
import { CliError } from '../cli.ts'

const CONTEXT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
const text = Type.String({ minLength: 1 })
const context = Type.Object({
  url: text,
  /** One of the two. */
  token: Type.Optional(text),
  tokenFile: Type.Optional(text),
})
export type Context = Static<typeof context>
const file = Type.Object({
  /** The one in use. */
  current: Type.Optional(text),
  contexts: Type.Record(Type.String({ pattern: CONTEXT_NAME.source }), context),
})
/** Consoles that a person works with, by name. */
export type Contexts = Static<typeof file>

const OTHERS = 0o077

export function isContextName(name: string): boolean {
  return CONTEXT_NAME.test(name)
}

/** @returns null without a home directory */
export function contextsFileOf(environment: NodeJS.ProcessEnv): string | null {
  const { HOME: home, XDG_CONFIG_HOME: own } = environment
  // The specification of base directories ignores relative ones.
  if (own?.startsWith('/')) return join(own, 'postern', 'config.yaml')
  return home === undefined || home === '' ? null : join(home, '.config', 'postern', 'config.yaml')
}

/** @throws CliError if the file cannot be used, or others may read the tokens in it */
export function readContexts(path: string | null): Contexts {
  const content = path === null ? null : readPrivately(path)
  if (path === null || content === null) return { contexts: {} }
  const parsed = parseOrNull(content)
  if (Value.Check(file, parsed)) return parsed
  throw wrong(`${path} is not a list of contexts: correct it, or delete it and add the contexts again`)
}

/** Replaces the file in one step: a reader sees the old one or the new one. */
export function writeContexts(path: string | null, contexts: Contexts): void {
  if (path === null) throw wrong('There is no home directory: set HOME or XDG_CONFIG_HOME')
  const temporary = `${path}.new`
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    writeFileSync(temporary, stringify(contexts), { mode: 0o600 })
    // The mode above is that of a new file.
    chmodSync(temporary, 0o600)
    renameSync(temporary, path)
  } catch (error) {
    // A part of a token.
    rmSync(temporary, { force: true })
    throw wrong(`${path} cannot be written: ${fileErrorText(error)}`)
  }
}

function readPrivately(path: string): string | null {
  try {
    const { mode } = statSync(path)
    if ((mode & OTHERS) !== 0) {
      throw wrong(`Other users may read ${path}, which holds tokens: run chmod 600 ${path}`)
    }
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof CliError) throw error
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw wrong(`${path} cannot be read: ${fileErrorText(error)}`)
  }
}

/** The parser's message could repeat a token. */
function parseOrNull(content: string): unknown {
  try {
    return parse(content, { logLevel: 'error' })
  } catch {
    return null
  }
}

function wrong(message: string): CliError {
  return new CliError(message, EXIT.config)
}
