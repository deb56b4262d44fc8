import type { Define } from '../../cli.ts'
import { addVerify } from './verify.ts'

/** `postern audit …` */
export const define: Define = (audit, cli) => {
  addVerify(audit, cli)
}
