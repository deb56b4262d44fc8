import type { Define } from '../../cli.ts'
import { addList } from './list.ts'

/** `postern refusals …` */
export const define: Define = (refusals, cli) => addList(refusals, cli)
