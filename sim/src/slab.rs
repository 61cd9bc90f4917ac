//! A table of things with numbers, whose places are used again.

pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = Some(thing);
                index
            }
            None => {
                self.places.push(Some(thing));
                (self.places.len() - 1) as u32
            }
        }
    }

    pub fn remove(&mut self, index: u32) -> Option<T> {
        let thing = self.places.get_mut(index as usize)?.take();
        if thing.is_some() {
            self.free.push(index);
        }
        thing
    }

    pub fn get(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places.iter().enumerate().filter_map(|(index, thing)| Some((index as u32, thing.as_ref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(index, thing)| Some((index as u32, thing.as_mut()?)))
    }

    pub fn clear(&mut self) -> Vec<Option<T>> {
        self.free.clear();
        std::mem::take(&mut self.places)
    }
}
