import { parseAssertionKey } from '../domain/pem.ts'
import type { ConfigProblem } from './config-error.ts'
import type { Config } from './schema/schema.ts'
import type { SettingFiles } from './setting-files.ts'

export const ASSERTION_KEY_FILES = 'upstream.assertion.keyFiles'

/**
 * Checks the files of the keys that sign assertions. What signs reads them again, so that the settings hold no key. Two files
 * with one key are rejected: a rotation has replaced one of them, and not yet the other.
 */
export function checkAssertionKeys(keyFiles: readonly string[], files: SettingFiles): ConfigProblem[] {
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

const TOO_SHORT =
  'is too short: half of it must exceed upstream.queue.maxWaitMs and upstream.connectTimeoutMs together, or assertions expire while requests wait'

/** Names of both parties, keys, and a life that outlasts the wait for a connection. */
export function findAssertionProblems({ upstream }: Config): ConfigProblem[] {
  const { keyFiles, lifetimeSeconds, ...others } = upstream.assertion
  const isOn = keyFiles.length > 0
  const problems = (['issuer', 'audience'] as const)
    .filter(name => (others[name] !== undefined) !== isOn)
    .map(name =>
      isOn
        ? { source: `upstream.assertion.${name}`, problem: `is required with ${ASSERTION_KEY_FILES}` }
        : { source: ASSERTION_KEY_FILES, problem: `is required with upstream.assertion.${name}` },
    )
  const longestWaitMs = upstream.queue.maxWaitMs + upstream.connectTimeoutMs
  if (!isOn || lifetimeSeconds * 500 > longestWaitMs) return problems
  return [...problems, { source: 'upstream.assertion.lifetimeSeconds', problem: TOO_SHORT }]
}
