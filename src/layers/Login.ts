/** What logging in over HTTP stands on; only a server that listens has it. */
import { Layer } from "effect"
import { Authorizations } from "../services/Authorizations.ts"
import * as NodeClientDocuments from "./NodeClientDocuments.ts"

export const layer = Layer.mergeAll(Authorizations.layer, NodeClientDocuments.layer)
