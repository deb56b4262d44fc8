import type { Define } from '../../cli.ts'
import { addList } from './list.ts'
import { addVerify } from './verify.ts'

/** `postern audit …` */
export const define: Define = (audit, cli) => {
  addList(audit, cli)
  addVerify(audit, cli)
}
