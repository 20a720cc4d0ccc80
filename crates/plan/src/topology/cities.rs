//! Coordinates and populations of cities.

use std::collections::{BTreeSet, HashMap};

use super::{UNSUITABLE, bad, is_plain, kilometers, quote};
use crate::{
    Error, Network,
    error::TopologyError,
    network::{Node, Role},
};

/// How far from a node's position its city may be, in kilometers: PoPs of large cities are in
/// suburbs and at landing stations. With this the populations of the Topology Zoo's and SNDlib's
/// maps are those of the JSON that we compare with.
const NEAR: f64 = 35.0;

/// A city of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct City {
    /// GeoNames number.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Country, ISO 3166-1 alpha-2.
    pub country: String,
    /// First-level division; in the United States the state's two letters.
    pub admin1: String,
    /// Latitude and longitude in degrees.
    pub position: [f64; 2],
    /// Inhabitants.
    pub population: f64,
}

/// What to do with nodes whose city, and therefore population, is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// They are an error.
    #[default]
    Refuse,
    /// They only forward traffic: [`Role::Backbone`].
    LeaveOut,
}

/// A table of cities.
#[derive(Clone, Debug, Default)]
pub struct Cities {
    cities: Vec<City>,
    /// Folded name to numbers, the largest city first.
    names: HashMap<String, Vec<u32>>,
    /// Whole degrees of latitude and longitude to numbers.
    grid: HashMap<(i32, i32), Vec<u32>>,
}

impl Cities {
    /// Reads a table: one city per line, fields separated by tabs: GeoNames number, name, country,
    /// first-level division, latitude, longitude, population. A first line that starts with
    /// `geonameid` is skipped.
    ///
    /// # Errors
    /// An invalid line, or no city.
    pub fn read(text: &str) -> Result<Self, Error> {
        let mut table = Self::default();
        for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let place = format_args!("cities, line {}", number + 1);
            if line.trim().is_empty() || (number == 0 && line.starts_with("geonameid")) {
                continue;
            }
            let fields: Vec<&str> = line.split('\t').take(8).collect();
            let [id, name, country, admin1, lat, lon, population] = fields[..] else {
                return Err(bad(
                    place,
                    format_args!("{} where 7 fields between tabs should be", quote(line)),
                ));
            };
            let number = |text: &str| -> Result<f64, Error> {
                text.trim()
                    .parse()
                    .map_err(|_| bad(place, format_args!("{} is not a number", quote(text))))
            };
            let city = City {
                id: id.trim().parse().map_err(|_| {
                    bad(place, format_args!("{} is not a GeoNames number", quote(id)))
                })?,
                name: name.into(),
                country: country.into(),
                admin1: admin1.into(),
                position: [number(lat)?, number(lon)?],
                population: number(population)?,
            };
            if let Some(text) = [name, country, admin1].into_iter().find(|text| !is_plain(text)) {
                return Err(bad(place, format_args!("{} is {UNSUITABLE}", quote(text))));
            }
            if !((-90.0..=90.0).contains(&city.position[0])
                && (-180.0..=180.0).contains(&city.position[1]))
            {
                return Err(bad(place, format_args!("{} is not on Earth", quote(name))));
            }
            if !(city.population >= 0.0 && city.population.is_finite()) {
                return Err(bad(
                    place,
                    format_args!("{} has a population of {}", quote(name), city.population),
                ));
            }
            table.cities.push(city);
        }
        if table.cities.is_empty() {
            return Err(TopologyError::Malformed("cities: the table is empty".into()).into());
        }
        table.cities.sort_by(|a, b| b.population.total_cmp(&a.population).then(a.id.cmp(&b.id)));
        for (number, city) in table.cities.iter().enumerate() {
            table.names.entry(fold(&city.name)).or_default().push(number as u32);
            table.grid.entry(cell(city.position)).or_default().push(number as u32);
        }
        Ok(table)
    }

    /// The largest city of that name: `London`, `Chicago, IL`, `Perth,+Australia`. The text after
    /// the comma is a state of the United States, or a country by its English name or two letters;
    /// two letters are a state first. Accents, case, spaces and dots do not matter.
    ///
    /// # Errors
    /// The table has no such city, or the text after the comma is neither a state nor a country.
    pub fn find(&self, name: &str) -> Result<&City, Error> {
        let (base, region) = match name.split_once(',') {
            Some((base, region)) => {
                (fold(base), Some(fold(region)).filter(|region| !region.is_empty()))
            }
            None => (fold(name), None),
        };
        let unknown = || Error::from(TopologyError::UnknownCity { city: quote(name) });
        let alias = ALIASES.iter().find(|(other, _)| *other == base).map(|(_, name)| fold(name));
        // The table's own name comes before aliases.
        let of = |name: &str| {
            self.names.get(name).into_iter().flatten().map(|&number| &self.cities[number as usize])
        };
        let candidates: Vec<&City> =
            of(&base).chain(alias.iter().flat_map(|alias| of(alias))).collect();
        let Some(region) = region else {
            return candidates
                .into_iter()
                .max_by(|a, b| a.population.total_cmp(&b.population).then(b.id.cmp(&a.id)))
                .ok_or_else(unknown);
        };
        let code = |list: &'static str, region: &str| {
            list.split(';')
                .find(|entry| {
                    entry[..2].eq_ignore_ascii_case(region) || fold(&entry[3..]) == region
                })
                .map(|entry| &entry[..2])
        };
        let (state, country) = (code(STATES, &region), code(COUNTRIES, &region));
        if state.is_none() && country.is_none() {
            let region = name.split_once(',').map_or("", |(_, region)| region.trim());
            return Err(
                TopologyError::UnknownRegion { city: quote(name), region: quote(region) }.into()
            );
        }
        let in_state = candidates
            .iter()
            .find(|city| city.country == "US" && Some(city.admin1.as_str()) == state);
        let in_country = || candidates.iter().find(|city| Some(city.country.as_str()) == country);
        in_state.or_else(in_country).copied().ok_or_else(unknown)
    }

    /// The largest city within 35 km of a position (latitude, longitude in degrees).
    pub fn near(&self, position: [f64; 2]) -> Option<&City> {
        let (lat, lon) = cell(position);
        // A degree of longitude has 111 km times the cosine of the latitude; at the poles all are
        // near.
        let width = (NEAR
            / (111.0 * (position[0].abs() + 1.0).min(90.0).to_radians().cos()).max(0.2))
        .ceil()
        .min(180.0) as i32;
        let mut best: Option<u32> = None;
        for lat in lat - 1..=lat + 1 {
            for lon in lon - width..=lon + width {
                let numbers = self.grid.get(&(lat, (lon + 180).rem_euclid(360) - 180));
                for &number in numbers.into_iter().flatten() {
                    // Numbers go by population.
                    if best.is_none_or(|best| number < best)
                        && kilometers(position, self.cities[number as usize].position) <= NEAR
                    {
                        best = Some(number);
                    }
                }
            }
        }
        best.map(|number| &self.cities[number as usize])
    }

    /// Adds populations from the table to a network's nodes, and positions to nodes that have none.
    /// A node's city is looked up by its name, else by its position, else by its label. Known
    /// values are kept. Where several nodes are one PoP (a router map), PoPs whose names mean the
    /// same city become one.
    ///
    /// # Errors
    /// A node whose city is unknown, unless they are to be left out.
    pub fn place(&self, network: &Network, unknown: Unknown) -> Result<Network, Error> {
        let mut network = network.clone();
        let routers = network.pop_count() < network.nodes.len();
        let mut pop_of_city: HashMap<u32, u32> = HashMap::new();
        // Router maps have many nodes of one city.
        let mut known: HashMap<String, Option<&City>> = HashMap::new();
        let mut left_out = BTreeSet::new();
        let mut changed = false;
        for node in &mut network.nodes {
            let complete = node.population.is_some() && node.position.is_some();
            if complete && !routers {
                continue;
            }
            let mut by_name =
                |name: &str| *known.entry(name.to_owned()).or_insert_with(|| self.find(name).ok());
            let city = node.city.as_deref().and_then(&mut by_name);
            let city = city.or_else(|| node.position.and_then(|position| self.near(position)));
            let city = city.or_else(|| by_name(&node.label).filter(|_| node.position.is_none()));
            let Some(city) = city else {
                if complete || node.role == Role::Backbone {
                    continue;
                }
                if unknown == Unknown::Refuse {
                    let error = node.city.as_deref().and_then(|name| self.find(name).err());
                    return Err(error.map_or_else(
                        || {
                            TopologyError::NoCityNear { node: node.id.clone(), kilometers: NEAR }
                                .into()
                        },
                        |error| match error {
                            Error::Topology(error) => TopologyError::OfNode {
                                node: node.id.clone(),
                                error: Box::new(error),
                            }
                            .into(),
                            other => other,
                        },
                    ));
                }
                node.role = Role::Backbone;
                left_out.insert(node.city.clone().unwrap_or_else(|| node.id.clone()));
                continue;
            };
            changed |= !complete;
            node.position = node.position.or(Some(city.position));
            node.population =
                node.population.or(Some(city.population).filter(|&population| population > 0.0));
            node.city.get_or_insert_with(|| city.name.clone());
            if routers {
                node.pop = *pop_of_city.entry(city.id).or_insert(node.pop);
            }
        }
        network.renumber_pops();
        if changed {
            network.derivation.push("positions and populations from the table of cities".into());
        }
        if !left_out.is_empty() {
            network.drop_demands_of_backbone();
            network.derivation.push(format!(
                "no traffic at {} unknown cities: {}",
                left_out.len(),
                shortened(&left_out)
            ));
        }
        Ok(network)
    }
}

impl Network {
    /// The same network in which nodes without a population only forward traffic.
    pub fn without_unpopulated(&self) -> Self {
        let mut network = self.clone();
        let mut left_out = BTreeSet::new();
        let sends = |node: &&mut Node| node.population.is_none() && node.role != Role::Backbone;
        for node in network.nodes.iter_mut().filter(sends) {
            node.role = Role::Backbone;
            left_out.insert(node.id.clone());
        }
        if !left_out.is_empty() {
            network.drop_demands_of_backbone();
            network.derivation.push(format!(
                "no traffic at {} nodes without a population: {}",
                left_out.len(),
                shortened(&left_out)
            ));
        }
        network
    }
}

/// The first names of a list: at most ten, and none that makes the line longer than readers keep.
fn shortened(names: &BTreeSet<String>) -> String {
    const MOST: usize = 800;
    let mut list = String::new();
    for (number, name) in names.iter().enumerate() {
        if number == 10 || list.len() + name.len() > MOST {
            list.push_str("; ...");
            break;
        }
        if number > 0 {
            list.push_str("; ");
        }
        list.push_str(name);
    }
    list
}

fn cell(position: [f64; 2]) -> (i32, i32) {
    (position[0].floor() as i32, (position[1].floor() as i32 + 180).rem_euclid(360) - 180)
}

/// A name without case, accents, spaces and punctuation; `Saint` is `St`.
fn fold(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    for c in name.chars() {
        let plain = match c {
            'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' | 'ā' | 'ă' | 'ą' | 'À' | 'Á' | 'Â' | 'Ã' | 'Ä'
            | 'Å' => "a",
            'ç' | 'ć' | 'č' | 'Ç' | 'Č' => "c",
            'è' | 'é' | 'ê' | 'ë' | 'ē' | 'ę' | 'ě' | 'È' | 'É' | 'Ê' | 'Ë' => "e",
            'ì' | 'í' | 'î' | 'ï' | 'ī' | 'İ' | 'ı' | 'Í' | 'Î' => "i",
            'ñ' | 'ń' | 'ň' | 'Ñ' => "n",
            'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' | 'ō' | 'ő' | 'Ó' | 'Ö' | 'Ø' => "o",
            'ù' | 'ú' | 'û' | 'ü' | 'ū' | 'ů' | 'ű' | 'Ú' | 'Ü' => "u",
            'ý' | 'ÿ' | 'Ý' => "y",
            'ž' | 'ź' | 'ż' | 'Ž' | 'Ż' => "z",
            'š' | 'ś' | 'ş' | 'ș' | 'Š' | 'Ś' | 'Ş' => "s",
            'ł' | 'Ł' => "l",
            'đ' | 'ď' => "d",
            'ř' => "r",
            'ť' | 'ţ' | 'ț' => "t",
            'ğ' => "g",
            'ß' => "ss",
            'æ' => "ae",
            'œ' => "oe",
            _ => "",
        };
        if !plain.is_empty() {
            folded.push_str(plain);
        } else if c.is_alphanumeric() {
            folded.extend(c.to_lowercase());
        }
    }
    match folded.strip_prefix("saint") {
        Some(rest) if !rest.is_empty() => format!("st{rest}"),
        _ => folded,
    }
}

/// Folded names that maps use, and the table's.
const ALIASES: &[(&str, &str)] = &[
    ("bruxelles", "Brussels"),
    ("cologne", "Köln"),
    ("firenze", "Florence"),
    ("frankfurt", "Frankfurt am Main"),
    ("genova", "Genoa"),
    ("geneve", "Geneva"),
    ("koeln", "Köln"),
    ("lisboa", "Lisbon"),
    ("milano", "Milan"),
    ("muenchen", "Munich"),
    ("munchen", "Munich"),
    ("napoli", "Naples"),
    ("newyork", "New York City"),
    ("nuernberg", "Nuremberg"),
    ("nurnberg", "Nuremberg"),
    ("padova", "Padua"),
    ("praha", "Prague"),
    ("roma", "Rome"),
    ("torino", "Turin"),
    ("venezia", "Venice"),
    ("warszawa", "Warsaw"),
    ("washingtondc", "Washington"),
    ("wien", "Vienna"),
];

const STATES: &str = "AL Alabama;AK Alaska;AZ Arizona;AR Arkansas;CA California;CO Colorado;CT Connecticut;DE Delaware;DC District of Columbia;\
    FL Florida;GA Georgia;HI Hawaii;ID Idaho;IL Illinois;IN Indiana;IA Iowa;KS Kansas;KY Kentucky;LA Louisiana;ME Maine;MD Maryland;\
    MA Massachusetts;MI Michigan;MN Minnesota;MS Mississippi;MO Missouri;MT Montana;NE Nebraska;NV Nevada;NH New Hampshire;NJ New Jersey;\
    NM New Mexico;NY New York;NC North Carolina;ND North Dakota;OH Ohio;OK Oklahoma;OR Oregon;PA Pennsylvania;PR Puerto Rico;RI Rhode Island;\
    SC South Carolina;SD South Dakota;TN Tennessee;TX Texas;UT Utah;VT Vermont;VA Virginia;WA Washington;WV West Virginia;WI Wisconsin;WY Wyoming";

/// ISO 3166-1; some twice, for other names in use.
const COUNTRIES: &str = "AD Andorra;AE United Arab Emirates;AE UAE;AF Afghanistan;AG Antigua and Barbuda;AI Anguilla;AL Albania;AM Armenia;AO Angola;\
    AR Argentina;AS American Samoa;AT Austria;AU Australia;AW Aruba;AX Aland Islands;AZ Azerbaijan;BA Bosnia and Herzegovina;BB Barbados;\
    BD Bangladesh;BE Belgium;BF Burkina Faso;BG Bulgaria;BH Bahrain;BI Burundi;BJ Benin;BL Saint Barthelemy;BM Bermuda;BN Brunei;BO Bolivia;\
    BQ Bonaire;BR Brazil;BS Bahamas;BT Bhutan;BW Botswana;BY Belarus;BZ Belize;CA Canada;CC Cocos Islands;CD Democratic Republic of the Congo;\
    CF Central African Republic;CG Congo;CH Switzerland;CI Ivory Coast;CI Cote d'Ivoire;CK Cook Islands;CL Chile;CM Cameroon;CN China;CO Colombia;\
    CR Costa Rica;CU Cuba;CV Cape Verde;CW Curacao;CX Christmas Island;CY Cyprus;CZ Czech Republic;CZ Czechia;DE Germany;DJ Djibouti;DK Denmark;\
    DM Dominica;DO Dominican Republic;DZ Algeria;EC Ecuador;EE Estonia;EG Egypt;EH Western Sahara;ER Eritrea;ES Spain;ET Ethiopia;FI Finland;FJ Fiji;\
    FK Falkland Islands;FM Micronesia;FO Faroe Islands;FR France;GA Gabon;GB United Kingdom;GB UK;GB Great Britain;GB England;GB Scotland;GD Grenada;\
    GE Georgia;GF French Guiana;GG Guernsey;GH Ghana;GI Gibraltar;GL Greenland;GM Gambia;GN Guinea;GP Guadeloupe;GQ Equatorial Guinea;GR Greece;\
    GS South Georgia;GT Guatemala;GU Guam;GW Guinea-Bissau;GY Guyana;HK Hong Kong;HN Honduras;HR Croatia;HT Haiti;HU Hungary;ID Indonesia;IE Ireland;\
    IL Israel;IM Isle of Man;IN India;IQ Iraq;IR Iran;IS Iceland;IT Italy;JE Jersey;JM Jamaica;JO Jordan;JP Japan;KE Kenya;KG Kyrgyzstan;KH Cambodia;\
    KI Kiribati;KM Comoros;KN Saint Kitts and Nevis;KP North Korea;KR South Korea;KR Korea;KW Kuwait;KY Cayman Islands;KZ Kazakhstan;LA Laos;\
    LB Lebanon;LC Saint Lucia;LI Liechtenstein;LK Sri Lanka;LR Liberia;LS Lesotho;LT Lithuania;LU Luxembourg;LV Latvia;LY Libya;MA Morocco;MC Monaco;\
    MD Moldova;ME Montenegro;MF Saint Martin;MG Madagascar;MH Marshall Islands;MK North Macedonia;MK Macedonia;ML Mali;MM Myanmar;MM Burma;MN Mongolia;\
    MO Macao;MO Macau;MP Northern Mariana Islands;MQ Martinique;MR Mauritania;MS Montserrat;MT Malta;MU Mauritius;MV Maldives;MW Malawi;MX Mexico;\
    MY Malaysia;MZ Mozambique;NA Namibia;NC New Caledonia;NE Niger;NF Norfolk Island;NG Nigeria;NI Nicaragua;NL Netherlands;NL The Netherlands;\
    NL Holland;NO Norway;NP Nepal;NR Nauru;NU Niue;NZ New Zealand;OM Oman;PA Panama;PE Peru;PF French Polynesia;PG Papua New Guinea;PH Philippines;\
    PK Pakistan;PL Poland;PM Saint Pierre and Miquelon;PN Pitcairn;PR Puerto Rico;PS Palestine;PT Portugal;PW Palau;PY Paraguay;QA Qatar;RE Reunion;\
    RO Romania;RS Serbia;RU Russia;RU Russian Federation;RW Rwanda;SA Saudi Arabia;SB Solomon Islands;SC Seychelles;SD Sudan;SE Sweden;SG Singapore;\
    SH Saint Helena;SI Slovenia;SJ Svalbard;SK Slovakia;SL Sierra Leone;SM San Marino;SN Senegal;SO Somalia;SR Suriname;SS South Sudan;\
    ST Sao Tome and Principe;SV El Salvador;SX Sint Maarten;SY Syria;SZ Eswatini;SZ Swaziland;TC Turks and Caicos Islands;TD Chad;\
    TF French Southern Territories;TG Togo;TH Thailand;TJ Tajikistan;TL Timor-Leste;TM Turkmenistan;TN Tunisia;TO Tonga;TR Turkey;\
    TT Trinidad and Tobago;TV Tuvalu;TW Taiwan;TZ Tanzania;UA Ukraine;UG Uganda;US United States;US USA;US United States of America;UY Uruguay;\
    UZ Uzbekistan;VA Vatican;VC Saint Vincent and the Grenadines;VE Venezuela;VG British Virgin Islands;VI US Virgin Islands;VN Vietnam;VN Viet Nam;\
    VU Vanuatu;WF Wallis and Futuna;WS Samoa;XK Kosovo;YE Yemen;YT Mayotte;ZA South Africa;ZM Zambia;ZW Zimbabwe";
