import { expect } from 'vitest'
import { runPosternHere } from './postern-here.ts'

export type Settings = Readonly<Record<string, string>>

/** Runs `postern doctor`, which must show no secret. @returns its lines by what they check, and its exit code */
export async function doctor(plane: string, env: Settings, args: readonly string[] = []) {
  const { code, stdout, stderr } = await runPosternHere(['doctor', plane, ...args], env)
  expect(stderr).toBe('')
  for (const [name, value] of Object.entries(env)) {
    if (/TOKEN$|SECRETS$|PASSWORD$/.test(name)) expect(stdout).not.toContain(value)
    const password = URL.parse(value)?.password ?? ''
    if (password !== '') expect(stdout).not.toContain(password)
  }
  const lines = stdout
    .split('\n')
    .map(line => /^(ok|FAILED) +((?:\S| (?! ))+) +(.*)$/.exec(line)?.slice(1) ?? [])
  const found = new Map(lines.map(([status, check, text]) => [check ?? '', `${status}: ${text}`]))
  return {
    code,
    found,
    failed: [...found].filter(([, text]) => !text.startsWith('ok: ')).map(([check]) => check),
  }
}
