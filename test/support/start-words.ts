import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))

/** What `npm start` gives to node, as package.json says it: what is measured and tested is what people run. */
export function startWords(checkout: string): string[] {
  const manifest: { scripts: { start: string } } = JSON.parse(
    readFileSync(join(checkout, 'package.json'), 'utf8'),
  )
  const [exec, node, ...words] = manifest.scripts.start.split(' ')
  if (exec !== 'exec' || node !== 'node')
    throw new Error('The script start in package.json is not: exec node …')
  return words
}

/** Of them, what the image must give to node, too. */
export const SEMI_SPACE_MIB = Number(
  startWords(CHECKOUT)
    .find(word => word.startsWith('--max-semi-space-size='))
    ?.split('=')[1],
)
