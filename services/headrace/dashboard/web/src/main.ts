import { mount } from "svelte";
import Page from "./Page.svelte";
import { tokenFromAddress } from "./api";
import "./page.css";

tokenFromAddress();
mount(Page, { target: document.getElementById("app") as HTMLElement });
