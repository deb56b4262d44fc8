import { readFileSync } from 'node:fs'

/** The page for developers who call an API behind the gateway. */
export const INTEGRATORS_PAGE = readFileSync(new URL('../../docs/integrators.md', import.meta.url), 'utf8')

/** @returns the page's client in this language */
export function clientIn(language: string): string {
  const [, code] = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(INTEGRATORS_PAGE) ?? []
  if (code === undefined) throw new Error(`docs/integrators.md has no ${language} block`)
  return code
}
